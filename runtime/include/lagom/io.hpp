// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <system_error>

#include <lagom/detail/export.hpp>
#include <lagom/detail/wait_queue.hpp>

namespace lagom {
namespace os {
class signal_watch;
}
inline namespace v0 {

/// Waiting for descriptors. From a fiber the worker goes on with others; a plain thread sleeps in poll(2).
/// One fiber of a runtime may wait to read from a descriptor and one to write to it at a time: the next one gets
/// std::errc::device_or_resource_busy. The descriptor must stay open while somebody waits for it (a fiber that waits for a
/// closed one waits until its deadline or stop); between waits it may be closed and its number used again without
/// telling anybody. It may be blocking or not, but reading and writing through io::read and io::write needs O_NONBLOCK
/// to never hold the worker (they set nothing).
namespace io {

namespace detail_io {
LAGOM_EXPORT std::error_code wait(int fd, bool write, std::int64_t expiry) noexcept;
}

/// Waits until fd can be read (written) without blocking, has reached its end or has failed. A file without readiness, such
/// as a regular one, is always ready. Errors: std::errc::timed_out, errc::stopped, the system's (EBADF; ENOSPC and ENOMEM
/// when it can watch no more descriptors). A deadline that has passed asks without waiting. One system call, two after
/// the fiber has changed workers. O(1).
inline std::error_code wait_readable(int fd) noexcept { return detail_io::wait(fd, false, detail::never); }
inline std::error_code wait_writable(int fd) noexcept { return detail_io::wait(fd, true, detail::never); }
template <class Clock, class Duration>
std::error_code wait_readable(int fd, const std::chrono::time_point<Clock, Duration>& deadline) noexcept {
  return detail_io::wait(fd, false, detail::expiry_at(deadline));
}
template <class Clock, class Duration>
std::error_code wait_writable(int fd, const std::chrono::time_point<Clock, Duration>& deadline) noexcept {
  return detail_io::wait(fd, true, detail::expiry_at(deadline));
}

/// Reads at least one byte, waiting as needed; 0 = end of stream. EINTR is retried. ec gets the error, then the result is 0.
LAGOM_EXPORT std::size_t read(int fd, std::span<std::byte> into, std::error_code& ec) noexcept;
LAGOM_EXPORT std::size_t read(int fd, std::span<std::byte> into);   // throws std::system_error

/// Writes all of it, waiting as needed; returns how much was written before an error. SIGPIPE is the descriptor owner's
/// affair: a pipe or socket whose reader is gone raises it unless the program ignores it (net:: streams never raise it).
LAGOM_EXPORT std::size_t write(int fd, std::span<const std::byte> from, std::error_code& ec) noexcept;
LAGOM_EXPORT std::size_t write(int fd, std::span<const std::byte> from);

/// Waits for signals such as SIGTERM as for anything else. While one exists its signals have no other effect: their
/// dispositions are taken over by the first set that names them and given back by the last. Several sets may name the
/// same signal, each is told. A signal that comes again before it was taken counts once. Signals must not be blocked in
/// every thread. Up to 32 sets in a process.
class signal_set {
 public:
  /// Throws std::invalid_argument for no signal at all, for what is no signal and for those that cannot be waited for (SIGKILL,
  /// SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL), std::system_error when out of descriptors or sets. Fiber or thread.
  LAGOM_EXPORT explicit signal_set(std::initializer_list<int> signals);
  LAGOM_EXPORT ~signal_set();
  signal_set(const signal_set&) = delete;
  signal_set& operator=(const signal_set&) = delete;

  /// The number of a signal that has come and was not taken yet, the lowest first; waits for one. One waiter at a time.
  /// Errors: errc::stopped, std::errc::timed_out, device_or_resource_busy; then the result is 0.
  int wait(std::error_code& ec) noexcept { return wait(detail::never, ec); }
  LAGOM_EXPORT int wait();
  template <class Clock, class Duration>
  int wait_until(const std::chrono::time_point<Clock, Duration>& deadline, std::error_code& ec) noexcept {
    return wait(detail::expiry_at(deadline), ec);
  }

 private:
  LAGOM_EXPORT int wait(std::int64_t expiry, std::error_code& ec) noexcept;

  std::unique_ptr<os::signal_watch> watch_;
};

}  // namespace io
}  // namespace v0
}  // namespace lagom
