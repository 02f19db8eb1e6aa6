// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <condition_variable>  // std::cv_status
#include <cstdint>
#include <mutex>
#include <stop_token>

#include <lagom/detail/export.hpp>
#include <lagom/detail/spin_lock.hpp>
#include <lagom/detail/wait_queue.hpp>
#include <lagom/mutex.hpp>

namespace lagom {
inline namespace v0 {

/// Waiting for a condition that a lagom::mutex guards. Names and meaning of std::condition_variable; waiters may be
/// fibers and plain threads in any mixture, and so may notifiers. Waiters are woken in the order in which they came.
///
/// There are no wake-ups without a reason: a wait ends by a notification, by its time, or by a stop request. A
/// notification that meets a waiter whose time ends at the same moment counts as a notification, and is reported so:
/// none is lost.
///
/// Stop. A request to stop the waiting fiber ends the wait:
///   - wait(lock), wait(lock, pred), wait_for(lock, d) and wait_until(lock, tp), which cannot say so, throw
///     std::system_error(errc::stopped);
///   - wait_for and wait_until with a predicate, and the forms with a std::stop_token, return pred().
/// In all cases the lock is held again first. Plain threads have no stop request of their own.
///
/// All waits REQUIRE that the caller owns the lock (std::system_error, operation_not_permitted, otherwise), and that
/// all waiters use the same mutex. The condition variable must outlive the calls, not only their notification.
class condition_variable {
 public:
  constexpr condition_variable() noexcept = default;
  condition_variable(const condition_variable&) = delete;
  condition_variable& operator=(const condition_variable&) = delete;

  /// Wakes the first waiter, if there is one. Never gives the worker away. With or without the mutex held.
  void notify_one() noexcept {
    guard_.lock();
    if (waiters_.empty()) return guard_.unlock();
    wake_one_and_unlock();
  }

  /// Wakes all who wait now. O(waiters). Never gives the worker away.
  void notify_all() noexcept {
    guard_.lock();
    if (waiters_.empty()) return guard_.unlock();
    wake_all_and_unlock();
  }

  /// Releases the lock, waits for a notification, takes the lock again. Throws when stopped.
  void wait(std::unique_lock<mutex>& lock) { wait_or_throw(lock, detail::never); }

  /// Waits until pred() holds; it is called with the lock held. Throws when stopped.
  template <class Predicate>
  void wait(std::unique_lock<mutex>& lock, Predicate pred) {
    while (!pred()) wait(lock);
  }

  /// Waits at most d (any unit; zero or less: releases the lock and takes it again at once). Returns timeout if no
  /// notification came, not before d has passed. Throws when stopped.
  template <class Rep, class Period>
  std::cv_status wait_for(std::unique_lock<mutex>& lock, const std::chrono::duration<Rep, Period>& d) {
    return wait_or_throw(lock, detail::expiry_after(d));
  }

  /// The same with a point in time of any clock. Other clocks than steady_clock are read once, at the call.
  template <class Clock, class Duration>
  std::cv_status wait_until(std::unique_lock<mutex>& lock, const std::chrono::time_point<Clock, Duration>& tp) {
    return wait_or_throw(lock, detail::expiry_at(tp));
  }

  /// Waits until pred() holds, for at most d in all. Returns pred(); false also when stopped.
  template <class Rep, class Period, class Predicate>
  bool wait_for(std::unique_lock<mutex>& lock, const std::chrono::duration<Rep, Period>& d, Predicate pred) {
    return wait_for_condition(lock, detail::expiry_after(d), nullptr, pred);
  }
  template <class Clock, class Duration, class Predicate>
  bool wait_until(std::unique_lock<mutex>& lock, const std::chrono::time_point<Clock, Duration>& tp, Predicate pred) {
    return wait_for_condition(lock, detail::expiry_at(tp), nullptr, pred);
  }

  /// Waits until pred() holds, or a stop is requested of the token or of the waiting fiber. Returns pred(). As
  /// std::condition_variable_any; may allocate nothing, and request_stop() never runs user code here.
  template <class Predicate>
  bool wait(std::unique_lock<mutex>& lock, std::stop_token token, Predicate pred) {
    return wait_for_condition(lock, detail::never, &token, pred);
  }
  template <class Rep, class Period, class Predicate>
  bool wait_for(std::unique_lock<mutex>& lock, std::stop_token token, const std::chrono::duration<Rep, Period>& d,
                Predicate pred) {
    return wait_for_condition(lock, detail::expiry_after(d), &token, pred);
  }
  template <class Clock, class Duration, class Predicate>
  bool wait_until(std::unique_lock<mutex>& lock, std::stop_token token,
                  const std::chrono::time_point<Clock, Duration>& tp, Predicate pred) {
    return wait_for_condition(lock, detail::expiry_at(tp), &token, pred);
  }

 private:
  template <class Predicate>
  bool wait_for_condition(std::unique_lock<mutex>& lock, std::int64_t expiry, const std::stop_token* token,
                          Predicate& pred) {
    while (!pred()) {
      if (wait_once(lock, expiry, token) != detail::wake::notified) return pred();
    }
    return true;
  }
  LAGOM_EXPORT std::cv_status wait_or_throw(std::unique_lock<mutex>& lock, std::int64_t expiry);
  LAGOM_EXPORT detail::wake wait_once(std::unique_lock<mutex>& lock, std::int64_t expiry, const std::stop_token* token);
  LAGOM_EXPORT void wake_one_and_unlock() noexcept LAGOM_THREAD_SAFETY(release_capability(guard_));
  LAGOM_EXPORT void wake_all_and_unlock() noexcept LAGOM_THREAD_SAFETY(release_capability(guard_));

  detail::spin_lock guard_;
  detail::wait_queue waiters_;
};

}  // namespace v0
}  // namespace lagom
