// SPDX-License-Identifier: BSL-1.0
#include "socket.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace lagom::os {
namespace {

std::error_code as_error(int number) noexcept { return {number, std::generic_category()}; }

// The result of a call and its errno, with errno put back.
struct called {
  long value = -1;
  std::error_code error;
};

template <class Call>
called repeat_interrupted(Call&& call) noexcept {
  const int saved = errno;
  called result;
  do {
    result.value = call();
  } while (result.value < 0 && errno == EINTR);
  if (result.value < 0) result.error = as_error(errno);
  errno = saved;
  return result;
}

struct raw_address {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);
  sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
};

raw_address to_raw(const socket_address& address) noexcept {
  raw_address raw;
  if (address.version == ip_version::v4) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(address.port);
    std::memcpy(&in.sin_addr, address.bytes.data(), sizeof in.sin_addr);
    std::memcpy(&raw.storage, &in, sizeof in);
    raw.size = sizeof in;
  } else {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(address.port);
    in.sin6_scope_id = address.scope;
    std::memcpy(&in.sin6_addr, address.bytes.data(), sizeof in.sin6_addr);
    std::memcpy(&raw.storage, &in, sizeof in);
    raw.size = sizeof in;
  }
  return raw;
}

std::error_code from_raw(const raw_address& raw, socket_address& out) noexcept {
  out = {};
  if (raw.storage.ss_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, &raw.storage, sizeof in);
    out.port = ntohs(in.sin_port);
    std::memcpy(out.bytes.data(), &in.sin_addr, sizeof in.sin_addr);
    return {};
  }
  if (raw.storage.ss_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, &raw.storage, sizeof in);
    out.version = ip_version::v6;
    out.port = ntohs(in.sin6_port);
    out.scope = in.sin6_scope_id;
    std::memcpy(out.bytes.data(), &in.sin6_addr, sizeof in.sin6_addr);
    return {};
  }
  return as_error(EAFNOSUPPORT);
}

std::error_code set_option(int descriptor, int level, int name, int value) noexcept {
  return repeat_interrupted([&] { return ::setsockopt(descriptor, level, name, &value, sizeof value); }).error;
}

std::error_code bind_and_listen(int descriptor, const socket_address& where, const listen_settings& settings) noexcept {
  std::error_code error = set_option(descriptor, SOL_SOCKET, SO_REUSEADDR, 1);
  if (!error && settings.reuse_port) error = set_option(descriptor, SOL_SOCKET, SO_REUSEPORT, 1);
  if (!error && where.version == ip_version::v6) {
    error = set_option(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, settings.v6_only ? 1 : 0);
  }
  if (error) return error;
  raw_address raw = to_raw(where);
  error = repeat_interrupted([&] { return ::bind(descriptor, raw.get(), raw.size); }).error;
  if (error) return error;
  return repeat_interrupted([&] { return ::listen(descriptor, settings.backlog); }).error;
}

}  // namespace

opened open_tcp_socket(ip_version version) noexcept {
  const int family = version == ip_version::v4 ? AF_INET : AF_INET6;
  const called result =
      repeat_interrupted([&] { return ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP); });
  return {static_cast<int>(result.value), result.error};
}

opened open_tcp_listener(const socket_address& where, const listen_settings& settings) noexcept {
  opened result = open_tcp_socket(where.version);
  if (result.error) return result;
  result.error = bind_and_listen(result.descriptor, where, settings);
  if (result.error) {
    close_descriptor(result.descriptor);
    result.descriptor = -1;
  }
  return result;
}

opened accept_connection(int listener) noexcept {
  const called result =
      repeat_interrupted([&] { return ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); });
  return {static_cast<int>(result.value), result.error};
}

std::error_code connect_socket(int descriptor, const socket_address& where) noexcept {
  raw_address raw = to_raw(where);
  const int saved = errno;
  std::error_code result;
  if (::connect(descriptor, raw.get(), raw.size) != 0) result = as_error(errno == EINTR ? EINPROGRESS : errno);
  errno = saved;
  return result;
}

std::error_code connect_result(int descriptor) noexcept {
  int number = 0;
  socklen_t size = sizeof number;
  const called asked = repeat_interrupted([&] { return ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &number, &size); });
  if (asked.error) return asked.error;
  if (number != 0) return as_error(number);
  // No error is also what a connection in progress says; only one that stands has a peer.
  raw_address raw;
  const called peer = repeat_interrupted([&] { return ::getpeername(descriptor, raw.get(), &raw.size); });
  return peer.error == std::errc::not_connected ? as_error(EINPROGRESS) : peer.error;
}

transfer send_some(int descriptor, std::span<const std::byte> from) noexcept {
  const called result =
      repeat_interrupted([&] { return ::send(descriptor, from.data(), from.size(), MSG_NOSIGNAL); });
  return {static_cast<std::size_t>(std::max(result.value, 0L)), result.error};
}

transfer receive_some(int descriptor, std::span<std::byte> into) noexcept {
  const called result = repeat_interrupted([&] { return ::recv(descriptor, into.data(), into.size(), 0); });
  return {static_cast<std::size_t>(std::max(result.value, 0L)), result.error};
}

std::error_code shutdown_writing(int descriptor) noexcept {
  return repeat_interrupted([&] { return ::shutdown(descriptor, SHUT_WR); }).error;
}

std::error_code set_no_delay(int descriptor, bool on) noexcept {
  return set_option(descriptor, IPPROTO_TCP, TCP_NODELAY, on ? 1 : 0);
}

std::error_code make_socket_non_blocking(int descriptor) noexcept {
  int type = 0;
  socklen_t size = sizeof type;
  const called asked = repeat_interrupted([&] { return ::getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size); });
  if (asked.error) return asked.error;
  const called flags = repeat_interrupted([&] { return ::fcntl(descriptor, F_GETFL); });
  if (flags.error || (flags.value & O_NONBLOCK) != 0) return flags.error;
  const int wanted = static_cast<int>(flags.value) | O_NONBLOCK;
  return repeat_interrupted([&] { return ::fcntl(descriptor, F_SETFL, wanted); }).error;
}

void close_descriptor(int descriptor) noexcept {
  // Not repeated on EINTR: Linux has closed it, and the number may be somebody else's by now.
  const int saved = errno;
  ::close(descriptor);
  errno = saved;
}

std::error_code local_address(int descriptor, socket_address& out) noexcept {
  raw_address raw;
  const called result = repeat_interrupted([&] { return ::getsockname(descriptor, raw.get(), &raw.size); });
  return result.error ? result.error : from_raw(raw, out);
}

std::error_code peer_address(int descriptor, socket_address& out) noexcept {
  raw_address raw;
  const called result = repeat_interrupted([&] { return ::getpeername(descriptor, raw.get(), &raw.size); });
  return result.error ? result.error : from_raw(raw, out);
}

bool parse_address(const std::string& text, socket_address& out) {
  if (::inet_pton(AF_INET, text.c_str(), out.bytes.data()) == 1) {
    out.version = ip_version::v4;
    out.scope = 0;
    return true;
  }
  const std::size_t percent = text.find('%');
  if (::inet_pton(AF_INET6, text.substr(0, percent).c_str(), out.bytes.data()) != 1) return false;
  out.version = ip_version::v6;
  out.scope = 0;
  if (percent == std::string::npos) return true;
  const std::string zone = text.substr(percent + 1);
  out.scope = ::if_nametoindex(zone.c_str());
  if (out.scope != 0) return true;
  const char* end = zone.data() + zone.size();
  const auto [stopped, error] = std::from_chars(zone.data(), end, out.scope);
  return error == std::errc() && stopped == end && !zone.empty();
}

std::string format_address(const socket_address& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = address.version == ip_version::v4 ? AF_INET : AF_INET6;
  ::inet_ntop(family, address.bytes.data(), text.data(), text.size());
  std::string result(text.data());
  if (address.scope != 0) {
    result += '%';
    result += std::to_string(address.scope);
  }
  return result;
}

}  // namespace lagom::os
