// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstdint>

#include <lagom/detail/export.hpp>
#include <lagom/detail/spin_lock.hpp>
#include <lagom/detail/wait_queue.hpp>

namespace lagom {
inline namespace v0 {

/// How an event goes back to "not set": by reset(), or by the one waiter it lets pass.
enum class reset { manual, automatic };

/// A flag one can wait for, from fibers and plain threads in any mixture.
///
/// manual: set() lets everybody pass, now and later, until reset(). automatic: each set() lets exactly one waiter pass,
/// the first one, or the next to come if nobody waits; several set() without a waiter count as one.
///
/// An event may be destroyed as soon as its waiter has returned, even if set() has not returned yet.
class event {
 public:
  constexpr explicit event(lagom::reset mode = lagom::reset::manual) noexcept
      : automatic_(mode == lagom::reset::automatic) {}
  event(const event&) = delete;
  event& operator=(const event&) = delete;

  /// Sets the event. O(waiters that pass). Never gives the worker away. Fibers and plain threads.
  void set() noexcept {
    guard_.lock();
    if (waiters_.empty()) {
      set_ = true;
      guard_.unlock();
    } else {
      wake_and_unlock();
    }
  }

  /// Takes set() back. Waiters that have been let pass stay so.
  void reset() noexcept {
    detail::spin_guard hold(guard_);
    set_ = false;
  }

  /// True if the event is set. An automatic event stays set.
  bool is_set() const noexcept {
    detail::spin_guard hold(guard_);
    return set_;
  }

  /// Passes if the event is set, as wait() would, but never waits.
  bool try_wait() noexcept {
    if (pass_or_stay()) return true;
    guard_.unlock();
    return false;
  }

  /// Waits until the event is set. Throws std::system_error(errc::stopped) when a stop of the calling fiber is
  /// requested while it waits.
  void wait() {
    if (!pass_or_stay()) wait_slowly();
  }

  /// Waits at most d (any unit; zero or less: looks once). False when the time is over or a stop of the calling fiber
  /// was requested; this_fiber::stop_requested() tells which.
  template <class Rep, class Period>
  bool wait_for(const std::chrono::duration<Rep, Period>& d) noexcept {
    return try_wait() || (d > d.zero() && wait_until_ns(detail::expiry_after(d)));
  }

  /// The same with a point in time of any clock. Other clocks than steady_clock are read once, at the call.
  template <class Clock, class Duration>
  bool wait_until(const std::chrono::time_point<Clock, Duration>& tp) {
    return try_wait() || wait_until_ns(detail::expiry_at(tp));
  }

 private:
  /// True: passed, guard_ released. False: not set, guard_ still held.
  bool pass_or_stay() noexcept LAGOM_THREAD_SAFETY(try_acquire_capability(false, guard_)) {
    guard_.lock();
    if (!set_) return false;
    set_ = !automatic_;
    guard_.unlock();
    return true;
  }
  LAGOM_EXPORT void wait_slowly() LAGOM_THREAD_SAFETY(release_capability(guard_));
  LAGOM_EXPORT bool wait_until_ns(std::int64_t expiry) noexcept;
  LAGOM_EXPORT void wake_and_unlock() noexcept LAGOM_THREAD_SAFETY(release_capability(guard_));

  // Not read without the lock: who sees set_ may destroy the event, so set() must be done with it by then.
  mutable detail::spin_lock guard_;
  bool set_ = false;
  const bool automatic_;
  detail::wait_queue waiters_;
};

}  // namespace v0
}  // namespace lagom
