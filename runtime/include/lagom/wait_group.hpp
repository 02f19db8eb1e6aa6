// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include <lagom/detail/export.hpp>
#include <lagom/detail/spin_lock.hpp>
#include <lagom/detail/wait_queue.hpp>

namespace lagom {
inline namespace v0 {

/// Counts things under way and lets others wait until none is left, from fibers and plain threads in any mixture.
///
/// Usual form: add(1) before each start, done() at each end, wait() by whoever needs all of them. It can be used again
/// after it has come to zero. It may be destroyed as soon as wait() has returned, even if the last done() has not.
class wait_group {
 public:
  constexpr wait_group() noexcept = default;

  /// Starts with a count. REQUIRES: count >= 0.
  constexpr explicit wait_group(std::ptrdiff_t count) noexcept : count_(count) {}
  wait_group(const wait_group&) = delete;
  wait_group& operator=(const wait_group&) = delete;

  /// Adds n to the count; n may be negative. At zero all waiters go on. Throws std::invalid_argument, and changes
  /// nothing, if the count would become negative or overflow. An add() that may meet a count of zero must happen before
  /// the wait().
  LAGOM_EXPORT void add(std::ptrdiff_t n = 1);

  /// One of them has ended: add(-1). O(waiters) at zero. Never gives the worker away. A done() too many is a bug in the
  /// program: std::invalid_argument.
  void done() {
    guard_.lock();
    if (count_ > 1) {
      --count_;
      guard_.unlock();
    } else {
      finish_and_unlock();
    }
  }

  /// The count at this moment.
  std::ptrdiff_t count() const noexcept {
    detail::spin_guard hold(guard_);
    return count_;
  }

  /// Waits until the count is zero. Throws std::system_error(errc::stopped) when a stop of the calling fiber is
  /// requested while it waits.
  LAGOM_EXPORT void wait();

  /// Waits at most d (any unit; zero or less: looks once). False when the time is over or a stop of the calling fiber
  /// was requested; this_fiber::stop_requested() tells which.
  template <class Rep, class Period>
  bool wait_for(const std::chrono::duration<Rep, Period>& d) noexcept {
    return wait_until_ns(detail::expiry_after(d)) == detail::wake::notified;
  }

  /// The same with a point in time of any clock. Other clocks than steady_clock are read once, at the call.
  template <class Clock, class Duration>
  bool wait_until(const std::chrono::time_point<Clock, Duration>& tp) {
    return wait_until_ns(detail::expiry_at(tp)) == detail::wake::notified;
  }

 private:
  LAGOM_EXPORT detail::wake wait_until_ns(std::int64_t expiry) noexcept;
  LAGOM_EXPORT void finish_and_unlock() LAGOM_THREAD_SAFETY(release_capability(guard_));

  mutable detail::spin_lock guard_;
  std::ptrdiff_t count_ = 0;
  detail::wait_queue waiters_;
};

}  // namespace v0
}  // namespace lagom
