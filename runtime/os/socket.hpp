// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <system_error>

#include "descriptor_wait.hpp"

namespace lagom::os {

// Sockets, one system call per function, repeated on EINTR only. Errors are errno in the generic category; errno itself
// is left alone. What these functions open is non-blocking and close-on-exec.

enum class ip_version : std::uint8_t { v4, v6 };

struct socket_address {
  ip_version version = ip_version::v4;
  std::array<unsigned char, 16> bytes{};  // network order; IPv4 uses the first four
  std::uint16_t port = 0;                 // host order
  std::uint32_t scope = 0;                // IPv6 link-local: index of the interface
};

struct opened {
  int descriptor = -1;
  std::error_code error;
};

struct listen_settings {
  int backlog = 0;
  bool reuse_port = false;
  bool v6_only = false;
};

opened open_tcp_socket(ip_version version) noexcept;

// A socket that listens; reuses the address of connections that linger.
opened open_tcp_listener(const socket_address& where, const listen_settings& settings) noexcept;
opened accept_connection(int listener) noexcept;

// EINPROGRESS: wait until writable, then ask connect_result(). An interrupted connect goes on too and says the same.
std::error_code connect_socket(int descriptor, const socket_address& where) noexcept;
// Nothing: connected. EINPROGRESS: not yet. Else why it failed; the system tells that once.
std::error_code connect_result(int descriptor) noexcept;

// Without SIGPIPE.
transfer send_some(int descriptor, std::span<const std::byte> from) noexcept;
transfer receive_some(int descriptor, std::span<std::byte> into) noexcept;

std::error_code shutdown_writing(int descriptor) noexcept;
std::error_code set_no_delay(int descriptor, bool on) noexcept;
// ENOTSOCK for anything but a socket.
std::error_code make_socket_non_blocking(int descriptor) noexcept;
void close_descriptor(int descriptor) noexcept;

std::error_code local_address(int descriptor, socket_address& out) noexcept;
std::error_code peer_address(int descriptor, socket_address& out) noexcept;

// "192.0.2.1", "2001:db8::1", "fe80::1%eth0"; no names. False: not an address.
bool parse_address(const std::string& text, socket_address& out);
std::string format_address(const socket_address& address);

}  // namespace lagom::os
