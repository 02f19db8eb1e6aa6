// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>

#include "poller.hpp"

namespace lagom::os {

// Blocks the calling OS thread until one of the wanted is the case for the descriptor (also an error, an end or a
// hang-up: then the next call on it tells), or until expiry_ns (absolute, CLOCK_MONOTONIC; os::never: no limit; 0 or
// past: only looks). EBADF for a descriptor that is not open, std::errc::timed_out. Signals do not end it. A file
// without readiness, such as a regular one, is always ready.
std::error_code wait_for_descriptor(int descriptor, interest wanted, std::int64_t expiry_ns) noexcept;

// Ends another thread's wait_for_descriptor. Not moved: others hold its address.
class waker {
 public:
  // The calling thread's own; gone when the thread ends.
  static waker& of_this_thread() noexcept;
  waker(const waker&) = delete;
  waker& operator=(const waker&) = delete;

  // Gets the descriptor it needs, once. EMFILE, ENFILE, ENOMEM: then it can be tried again.
  std::error_code open() noexcept;
  // Ends the present or the next wait with this waker. Any thread.
  void notify() noexcept;

 private:
  friend std::error_code wait_for_descriptor(int, interest, std::int64_t, waker&) noexcept;
  waker() noexcept = default;
  ~waker();
  int event_fd_ = -1;
};

// As above; std::errc::interrupted after notify().
// REQUIRES: stopper is open and the calling thread's.
std::error_code wait_for_descriptor(int descriptor, interest wanted, std::int64_t expiry_ns, waker& stopper) noexcept;

// What one system call moved, or why it did not. errno is left alone.
struct transfer {
  std::size_t count = 0;
  std::error_code error;  // generic category; would_block(error): wait and try again

  [[nodiscard]] bool would_block() const noexcept {
    return error == std::errc::resource_unavailable_try_again || error == std::errc::operation_would_block;
  }
};

// read(2) and write(2), once, repeated on EINTR only. Sizes beyond what the system takes at a time are cut short.
transfer read_descriptor(int descriptor, std::span<std::byte> into) noexcept;
transfer write_descriptor(int descriptor, std::span<const std::byte> from) noexcept;

}  // namespace lagom::os
