// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <lagom/detail/export.hpp>
#include <lagom/detail/wait_queue.hpp>
#include <lagom/error.hpp>

namespace lagom {
inline namespace v0 {
namespace detail {

/// Names a socket. Copies outlive what they name and are refused then. Generation 0: none.
struct socket_handle {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
};

}  // namespace detail

/// TCP for fibers and plain threads alike: a fiber gives its worker away while it waits, a thread sleeps in poll(2).
///
/// Rules for listeners and streams:
/// - One call that reads (accepts) and one that writes at a time, from any fibers or threads; the next one gets
///   std::errc::device_or_resource_busy. close() and the deadlines may be called at any time beside them.
/// - close() makes calls in progress return errc::closed, and every later call too.
/// - A deadline holds for all calls of its direction until it is set anew, those in progress included; time_point::max() takes it
///   away. Past it they fail with std::errc::timed_out without looking at what is there.
/// - A stop of the calling fiber ends a wait with errc::stopped. What can be done without waiting is done all the same.
/// - Functions without std::error_code throw std::system_error. EINTR is not seen, SIGPIPE is not raised.
/// - Descriptors are non-blocking and close-on-exec.
/// - Moving, destroying and assigning are for one fiber or thread at a time, as with any object.
namespace net {

/// IP address and port.
class endpoint {
 public:
  /// 0.0.0.0:0
  endpoint() noexcept = default;
  /// "192.0.2.1:80", "[2001:db8::1]:80", "[fe80::1%eth0]:80", ":80" (every address, IPv6 with IPv4). No names: see resolve.
  /// Throws std::invalid_argument.
  LAGOM_EXPORT static endpoint parse(std::string_view text);
  LAGOM_EXPORT static endpoint loopback(std::uint16_t port) noexcept;      ///< 127.0.0.1
  LAGOM_EXPORT static endpoint loopback_v6(std::uint16_t port) noexcept;   ///< ::1
  LAGOM_EXPORT static endpoint any(std::uint16_t port) noexcept;           ///< 0.0.0.0
  LAGOM_EXPORT static endpoint any_v6(std::uint16_t port) noexcept;        ///< ::, for a listener IPv4 too

  std::uint16_t port() const noexcept { return port_; }
  bool is_v6() const noexcept { return v6_; }
  /// The address alone, without port and brackets.
  LAGOM_EXPORT std::string address() const;
  /// What parse() takes.
  LAGOM_EXPORT std::string to_string() const;

  friend bool operator==(const endpoint&, const endpoint&) noexcept = default;
  friend LAGOM_EXPORT std::ostream& operator<<(std::ostream& out, const endpoint& e);

 private:
  friend struct endpoint_access;
  std::array<unsigned char, 16> bytes_{};   // network order; IPv4 in the first four
  std::uint32_t scope_ = 0;
  std::uint16_t port_ = 0;
  bool v6_ = false;
};

/// A connection. Small writes are sent at once (TCP_NODELAY) unless told otherwise.
class [[nodiscard]] tcp_stream {
 public:
  /// A closed one.
  tcp_stream() noexcept = default;
  tcp_stream(tcp_stream&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  tcp_stream& operator=(tcp_stream&& other) noexcept {
    if (this != &other) {
      close();
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  ~tcp_stream() { close(); }

  static tcp_stream connect(const endpoint& peer) { return connect_throwing(peer, detail::never); }
  static tcp_stream connect(const endpoint& peer, std::error_code& ec) noexcept { return connect(peer, detail::never, ec); }
  template <class Clock, class Duration>
  static tcp_stream connect(const endpoint& peer, const std::chrono::time_point<Clock, Duration>& deadline) {
    return connect_throwing(peer, detail::expiry_at(deadline));
  }
  template <class Clock, class Duration>
  static tcp_stream connect(const endpoint& peer, const std::chrono::time_point<Clock, Duration>& deadline,
                            std::error_code& ec) noexcept {
    return connect(peer, detail::expiry_at(deadline), ec);
  }

  /// Takes a connected stream socket over (TCP or Unix) and makes it non-blocking. Nobody else may use or close the descriptor
  /// from then on. On an error (ENOTSOCK, EBADF) it stays the caller's.
  LAGOM_EXPORT static tcp_stream adopt(int descriptor);
  /// Gives the descriptor back, open. device_or_resource_busy while calls are in progress.
  LAGOM_EXPORT int release();

  /// Waits for at least one byte and returns what is there, at most into.size(); 0: the peer has ended its side, or `into` is empty.
  /// With an error the result is 0.
  LAGOM_EXPORT std::size_t read_some(std::span<std::byte> into, std::error_code& ec) noexcept;
  LAGOM_EXPORT std::size_t read_some(std::span<std::byte> into);
  /// Waits until at least one byte is taken, and returns how many were.
  LAGOM_EXPORT std::size_t write_some(std::span<const std::byte> from, std::error_code& ec) noexcept;
  LAGOM_EXPORT std::size_t write_some(std::span<const std::byte> from);
  /// Writes all of it; returns how much was written before an error.
  LAGOM_EXPORT std::size_t write_all(std::span<const std::byte> from, std::error_code& ec) noexcept;
  LAGOM_EXPORT std::size_t write_all(std::span<const std::byte> from);

  template <class Clock, class Duration>
  void set_read_deadline(const std::chrono::time_point<Clock, Duration>& deadline) noexcept {
    set_deadline(false, detail::expiry_at(deadline));
  }
  template <class Clock, class Duration>
  void set_write_deadline(const std::chrono::time_point<Clock, Duration>& deadline) noexcept {
    set_deadline(true, detail::expiry_at(deadline));
  }

  /// Ends our side: the peer reads 0 after what was written; reading goes on.
  LAGOM_EXPORT void shutdown_write();
  LAGOM_EXPORT void shutdown_write(std::error_code& ec) noexcept;
  LAGOM_EXPORT void set_no_delay(bool on);
  LAGOM_EXPORT endpoint local_endpoint() const;
  LAGOM_EXPORT endpoint remote_endpoint() const;

  LAGOM_EXPORT void close() noexcept;
  LAGOM_EXPORT bool is_open() const noexcept;
  /// For options that are not offered here; -1 when closed. Not for reading, writing, waiting or closing.
  LAGOM_EXPORT int native_handle() const noexcept;

 private:
  friend class tcp_listener;
  explicit tcp_stream(detail::socket_handle handle) noexcept : handle_(handle) {}
  LAGOM_EXPORT static tcp_stream connect(const endpoint& peer, std::int64_t expiry, std::error_code& ec) noexcept;
  LAGOM_EXPORT static tcp_stream connect_throwing(const endpoint& peer, std::int64_t expiry);
  LAGOM_EXPORT void set_deadline(bool write, std::int64_t expiry) noexcept;

  detail::socket_handle handle_;
};

struct listen_options {
  int backlog = 0;          ///< connections that wait to be accepted; 0: 4,096. The system's limit (somaxconn) holds
  bool reuse_port = false;  ///< several listeners share the port, the system spreads the connections
  bool v6_only = false;     ///< an IPv6 listener takes no IPv4
};

class [[nodiscard]] tcp_listener {
 public:
  tcp_listener() noexcept = default;
  /// Binds and listens; port 0: any free one, see local_endpoint(). A port whose old connections linger can be taken.
  LAGOM_EXPORT explicit tcp_listener(const endpoint& local, listen_options options = {});
  tcp_listener(tcp_listener&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  tcp_listener& operator=(tcp_listener&& other) noexcept {
    if (this != &other) {
      close();
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  ~tcp_listener() { close(); }

  /// Takes over a socket that listens already, such as one from a service manager.
  LAGOM_EXPORT static tcp_listener adopt(int descriptor);

  /// Waits for a connection. Connections that have failed meanwhile are passed over. Without descriptors or memory it does not
  /// fail but tries again after 10 ms, doubling to 100 ms, and says so in the runtime's log at most every ten seconds.
  LAGOM_EXPORT tcp_stream accept();
  LAGOM_EXPORT tcp_stream accept(std::error_code& ec) noexcept;

  template <class Clock, class Duration>
  void set_accept_deadline(const std::chrono::time_point<Clock, Duration>& deadline) noexcept {
    set_deadline(detail::expiry_at(deadline));
  }
  LAGOM_EXPORT endpoint local_endpoint() const;
  LAGOM_EXPORT void close() noexcept;
  LAGOM_EXPORT bool is_open() const noexcept;
  LAGOM_EXPORT int native_handle() const noexcept;

 private:
  LAGOM_EXPORT void set_deadline(std::int64_t expiry) noexcept;

  detail::socket_handle handle_;
};

}  // namespace net
}  // namespace v0
}  // namespace lagom
