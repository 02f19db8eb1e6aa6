// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <system_error>

#include <lagom/detail/wait_queue.hpp>

namespace lagom {
inline namespace v0 {

/// Waiting for descriptors. From a fiber the worker goes on with others; a plain thread sleeps in poll(2).
/// One fiber of a runtime may wait to read from a descriptor and one to write to it at a time: the next one gets
/// std::errc::device_or_resource_busy. The descriptor must stay open while somebody waits for it (a fiber that waits for a
/// closed one waits until its deadline or stop); between waits it may be closed and its number used again without
/// telling anybody. It may be blocking or not, but reading and writing through io::read and io::write needs O_NONBLOCK
/// to never hold the worker (they set nothing).
namespace io {

namespace detail_io {
std::error_code wait(int fd, bool write, std::int64_t expiry) noexcept;
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
std::size_t read(int fd, std::span<std::byte> into, std::error_code& ec) noexcept;
std::size_t read(int fd, std::span<std::byte> into);   // throws std::system_error

/// Writes all of it, waiting as needed; returns how much was written before an error. SIGPIPE is the descriptor owner's
/// affair: a pipe or socket whose reader is gone raises it unless the program ignores it (net:: streams never raise it).
std::size_t write(int fd, std::span<const std::byte> from, std::error_code& ec) noexcept;
std::size_t write(int fd, std::span<const std::byte> from);

}  // namespace io
}  // namespace v0
}  // namespace lagom
