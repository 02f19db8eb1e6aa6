// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>  // std::unique_lock, std::lock_guard, std::scoped_lock work with these classes

#include <lagom/detail/export.hpp>
#include <lagom/detail/spin_lock.hpp>
#include <lagom/detail/wait_queue.hpp>

namespace lagom {
inline namespace v0 {
namespace detail {

/// What the mutexes share: one owner, and a queue of those who wait for it.
///
/// Fairness: unlock() frees the mutex and makes the first waiter runnable; whoever comes first may take it, so a fiber
/// that locks again at once need not wait for a switch. A waiter that was passed over in this way goes back to the
/// front, and the next unlock() hands the mutex over to it. So everybody waits for at most two critical sections per
/// waiter ahead of him, and one more.
///
/// Invariant: while waking_ is set, one waiter has been unlinked to try its luck and has not decided yet; nobody else
/// is woken meanwhile. A waiter with `flag` was passed over; if it is unlinked, it is the owner and held_ has stayed
/// set.
class mutex_core {
 public:
  constexpr mutex_core() noexcept = default;
  mutex_core(const mutex_core&) = delete;
  mutex_core& operator=(const mutex_core&) = delete;

  /// Waits until the mutex is the caller's. Fibers and plain threads. Not ended early by a stop request. Not recursive:
  /// a second lock() by the owner waits for ever.
  void lock() noexcept {
    if (!try_lock_or_stay()) lock_slowly(never);
  }

  /// Takes the mutex if it is free. Never waits, never fails for no reason. Fibers and plain threads.
  bool try_lock() noexcept {
    if (try_lock_or_stay()) return true;
    guard_.unlock();
    return false;
  }

  /// Frees the mutex. Never gives the worker away. As with std::mutex only the owner may call it, and the mutex may be
  /// destroyed as soon as another has locked and unlocked it.
  void unlock() noexcept {
    guard_.lock();
    if (waiters_.empty() || waking_) {
      held_ = false;
      guard_.unlock();
    } else {
      wake_one_and_unlock();
    }
  }

 protected:
  /// Time-out form of lock(); an expiry of zero or less tries once. True when the mutex is the caller's.
  bool try_lock_until_ns(std::int64_t expiry) noexcept { return try_lock_or_stay() || lock_slowly(expiry); }

 private:
  /// True: locked, guard_ released. False: somebody else owns it, guard_ still held.
  bool try_lock_or_stay() noexcept LAGOM_THREAD_SAFETY(try_acquire_capability(false, guard_)) {
    guard_.lock();
    if (held_) return false;
    held_ = true;
    guard_.unlock();
    return true;
  }
  LAGOM_EXPORT bool lock_slowly(std::int64_t expiry) noexcept LAGOM_THREAD_SAFETY(release_capability(guard_));
  LAGOM_EXPORT void wake_one_and_unlock() noexcept LAGOM_THREAD_SAFETY(release_capability(guard_));

  spin_lock guard_;
  bool held_ = false;
  bool waking_ = false;
  wait_queue waiters_;
};

}  // namespace detail

/// Mutual exclusion between fibers, plain threads, or both. Lockable, as std::mutex; use it with std::unique_lock,
/// std::lock_guard and std::scoped_lock. A fiber that has to wait gives its worker to others; a plain thread sleeps.
/// It may be held while the fiber waits for something else, and may be constant-initialised.
///
/// Uncontended lock() and unlock() are one atomic operation each and a few instructions, inline.
class mutex : public detail::mutex_core {
 public:
  constexpr mutex() noexcept = default;
};

/// A mutex whose lock can be given up after a time. TimedLockable, as std::timed_mutex.
class timed_mutex : public detail::mutex_core {
 public:
  constexpr timed_mutex() noexcept = default;

  /// Waits at most d (any unit; zero or less: tries once). True when the mutex is the caller's. A waiter that gives up
  /// passes the wake-up on. Not ended early by a stop request. Fibers and plain threads.
  template <class Rep, class Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& d) noexcept {
    return try_lock() || (d > d.zero() && try_lock_until_ns(detail::expiry_after(d)));
  }

  /// The same with a point in time of any clock. Other clocks than steady_clock are read once, at the call.
  template <class Clock, class Duration>
  bool try_lock_until(const std::chrono::time_point<Clock, Duration>& tp) {
    return try_lock() || try_lock_until_ns(detail::expiry_at(tp));
  }
};

/// A mutex that its owner, a fiber or a plain thread, may lock again; it is free when it has been unlocked as often. As
/// std::recursive_mutex. A fiber stays the owner when it continues on another worker.
class recursive_mutex {
 public:
  constexpr recursive_mutex() noexcept = default;

  /// As mutex, but the owner goes on at once. Throws std::system_error(resource_unavailable_try_again) at 2^32 - 1
  /// levels.
  LAGOM_EXPORT void lock();
  /// True also for the owner; false at 2^32 - 1 levels.
  LAGOM_EXPORT bool try_lock() noexcept;
  /// REQUIRES: the caller is the owner.
  LAGOM_EXPORT void unlock() noexcept;

 private:
  enum class entry { first, again, full };
  entry enter_again() noexcept;
  void enter_first() noexcept;

  mutex mutex_;
  // Written by the owner only; others may read it at any time, and never find themselves in it.
  std::atomic<std::uintptr_t> owner_{0};
  std::uint32_t levels_ = 0;
};

}  // namespace v0
}  // namespace lagom
