// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstdint>
#include <shared_mutex>  // std::shared_lock works with this class

#include <lagom/detail/export.hpp>
#include <lagom/detail/spin_lock.hpp>
#include <lagom/detail/wait_queue.hpp>

namespace lagom {
inline namespace v0 {

/// Many readers or one writer: fibers, plain threads, or both. SharedLockable and Lockable, as std::shared_mutex; use
/// it with std::shared_lock and std::unique_lock.
///
/// First come, first served: who unlocks hands it to the first in the queue, together with the readers right behind a
/// first reader. A reader that arrives while somebody waits queues up, so neither side can starve the other. Hence a
/// fiber that holds it shared must not lock it shared again: a writer may wait in between, and then nobody can go on.
///
/// Locking is not ended by a stop request. Uncontended calls are one atomic operation each, inline; all of them write
/// to the same cache line, so readers on several workers do slow each other down.
class shared_mutex {
 public:
  constexpr shared_mutex() noexcept = default;
  shared_mutex(const shared_mutex&) = delete;
  shared_mutex& operator=(const shared_mutex&) = delete;

  /// Waits until the caller is the only owner.
  void lock() noexcept {
    guard_.lock();
    if (holders_ != 0) return wait_and_unlock(kind::writer);
    holders_ = writer;
    guard_.unlock();
  }
  /// Never waits, never fails for no reason.
  bool try_lock() noexcept {
    const detail::spin_guard hold(guard_);
    if (holders_ != 0) return false;
    holders_ = writer;
    return true;
  }
  /// REQUIRES: the caller holds it alone. O(readers made runnable). Never gives the worker away.
  void unlock() noexcept {
    guard_.lock();
    holders_ = 0;
    pass_on_and_unlock();
  }

  /// Waits until the caller is one of the readers.
  void lock_shared() noexcept {
    guard_.lock();
    if (holders_ == writer || !waiters_.empty()) return wait_and_unlock(kind::reader);
    ++holders_;
    guard_.unlock();
  }
  /// Never waits. False also while somebody waits.
  bool try_lock_shared() noexcept {
    const detail::spin_guard hold(guard_);
    if (holders_ == writer || !waiters_.empty()) return false;
    ++holders_;
    return true;
  }
  /// REQUIRES: the caller is one of the readers. Never gives the worker away.
  void unlock_shared() noexcept {
    guard_.lock();
    --holders_;
    pass_on_and_unlock();
  }

 protected:
  /// Time-out forms; an expiry of zero or less tries once. True when the caller is an owner.
  LAGOM_EXPORT bool try_lock_until_ns(std::int64_t expiry) noexcept;
  LAGOM_EXPORT bool try_lock_shared_until_ns(std::int64_t expiry) noexcept;

 private:
  enum class kind { reader, writer };
  static constexpr std::int64_t writer = -1;

  void pass_on_and_unlock() noexcept LAGOM_THREAD_SAFETY(release_capability(guard_)) {
    if (holders_ != 0 || waiters_.empty()) {
      guard_.unlock();
    } else {
      hand_over_and_unlock();
    }
  }
  LAGOM_EXPORT bool wait_until_and_unlock(kind who, std::int64_t expiry) noexcept LAGOM_THREAD_SAFETY(release_capability(guard_));
  LAGOM_EXPORT void wait_and_unlock(kind who) noexcept LAGOM_THREAD_SAFETY(release_capability(guard_));
  LAGOM_EXPORT void hand_over_and_unlock() noexcept LAGOM_THREAD_SAFETY(release_capability(guard_));

  // Invariant: the first waiter is one that must wait. Readers only queue behind a writer, or behind somebody who
  // waits.
  detail::spin_lock guard_;
  std::int64_t holders_ = 0;  // readers, or `writer`
  detail::wait_queue waiters_;
};

/// A shared_mutex whose lock, of either kind, can be given up after a time. SharedTimedLockable and TimedLockable, as
/// std::shared_timed_mutex. A time is in any unit; zero or less tries once. Points in time may be of any clock; other
/// clocks than steady_clock are read once, at the call. Who gives up no longer keeps those behind him out.
class shared_timed_mutex : public shared_mutex {
 public:
  constexpr shared_timed_mutex() noexcept = default;

  template <class Rep, class Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& d) noexcept {
    return try_lock_until_ns(detail::expiry_after(d));
  }
  template <class Clock, class Duration>
  bool try_lock_until(const std::chrono::time_point<Clock, Duration>& tp) {
    return try_lock_until_ns(detail::expiry_at(tp));
  }
  template <class Rep, class Period>
  bool try_lock_shared_for(const std::chrono::duration<Rep, Period>& d) noexcept {
    return try_lock_shared_until_ns(detail::expiry_after(d));
  }
  template <class Clock, class Duration>
  bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration>& tp) {
    return try_lock_shared_until_ns(detail::expiry_at(tp));
  }
};

}  // namespace v0
}  // namespace lagom
