// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <lagom/detail/export.hpp>
#include <lagom/detail/spin_lock.hpp>
#include <lagom/detail/wait_queue.hpp>

namespace lagom {
inline namespace v0 {
namespace detail {

/// A number of permits and a queue of those who want one.
///
/// Permits are handed over: release() gives them to the first waiters, which own them from that moment, and keeps what
/// is left. Hence first come, first served, one wake-up per permit, and held + free is exact at all times. (Leaving the
/// permit for whoever comes first would cost the waiter a second look at the semaphore, and a loop.)
///
/// Invariant: while somebody waits, no permit is free.
class semaphore_core {
 public:
  semaphore_core(const semaphore_core&) = delete;
  semaphore_core& operator=(const semaphore_core&) = delete;

  /// Returns n permits (n >= 0; free permits must not come to exceed max()). O(n) when n waiters are woken. When
  /// somebody was woken this is a preemption point: a fiber may give its worker away after all is done. Fibers and
  /// threads.
  void release(std::ptrdiff_t n = 1) noexcept {
    guard_.lock();
    if (waiters_.empty()) {
      free_ += n;
      guard_.unlock();
    } else {
      hand_over_and_unlock(n);
    }
  }

  /// Takes a permit, waits for one if need be. Throws std::system_error(errc::stopped) when a stop of the calling fiber
  /// is requested while it waits; it has no permit then.
  void acquire() {
    if (!take_or_stay()) acquire_slowly();
  }

  /// Takes a permit if one is free. Never waits, never fails for no reason.
  bool try_acquire() noexcept {
    if (take_or_stay()) return true;
    guard_.unlock();
    return false;
  }

  /// Waits at most d (any unit; zero or less: tries once). False when the time is over or a stop of the calling fiber
  /// was requested; this_fiber::stop_requested() tells which. A permit that arrives at the last moment is taken, never
  /// lost.
  template <class Rep, class Period>
  bool try_acquire_for(const std::chrono::duration<Rep, Period>& d) noexcept {
    return try_acquire() || (d > d.zero() && try_acquire_until_ns(expiry_after(d)));
  }

  /// The same with a point in time of any clock. Other clocks than steady_clock are read once, at the call.
  template <class Clock, class Duration>
  bool try_acquire_until(const std::chrono::time_point<Clock, Duration>& tp) {
    return try_acquire() || try_acquire_until_ns(expiry_at(tp));
  }

 protected:
  constexpr explicit semaphore_core(std::ptrdiff_t permits) noexcept : free_(permits) {}

 private:
  /// True: taken, guard_ released. False: none free, guard_ still held.
  bool take_or_stay() noexcept LAGOM_THREAD_SAFETY(try_acquire_capability(false, guard_)) {
    guard_.lock();
    if (free_ <= 0) return false;
    --free_;
    guard_.unlock();
    return true;
  }
  LAGOM_EXPORT void acquire_slowly() LAGOM_THREAD_SAFETY(release_capability(guard_));
  LAGOM_EXPORT bool try_acquire_until_ns(std::int64_t expiry) noexcept;
  LAGOM_EXPORT void hand_over_and_unlock(std::ptrdiff_t n) noexcept LAGOM_THREAD_SAFETY(release_capability(guard_));

  spin_lock guard_;
  std::ptrdiff_t free_;
  wait_queue waiters_;
};

}  // namespace detail

/// Counting semaphore, as std::counting_semaphore, for fibers and plain threads in any mixture. See semaphore_core for
/// the operations and what they promise. The uncontended paths are one atomic operation, inline.
template <std::ptrdiff_t Max = std::numeric_limits<std::ptrdiff_t>::max()>
class counting_semaphore : public detail::semaphore_core {
  static_assert(Max >= 0);

 public:
  /// REQUIRES: 0 <= permits <= max().
  constexpr explicit counting_semaphore(std::ptrdiff_t permits) noexcept : semaphore_core(permits) {}

  /// The most permits that may ever be free.
  static constexpr std::ptrdiff_t max() noexcept { return Max; }
};

using binary_semaphore = counting_semaphore<1>;

}  // namespace v0
}  // namespace lagom
