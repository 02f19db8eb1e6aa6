// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <limits>

#include <lagom/detail/export.hpp>
#include <lagom/detail/spin_lock.hpp>
#include <lagom/detail/wait_queue.hpp>

namespace lagom {
inline namespace v0 {

/// Counts down once and lets everybody pass at zero, as std::latch. Fibers and plain threads in any mixture. Waiting is
/// not ended by a stop request. May be destroyed as soon as a waiter has returned and nobody else will call it.
class latch {
 public:
  /// REQUIRES: expected >= 0.
  constexpr explicit latch(std::ptrdiff_t expected) noexcept : count_(expected) {}
  latch(const latch&) = delete;
  latch& operator=(const latch&) = delete;

  static constexpr std::ptrdiff_t max() noexcept { return std::numeric_limits<std::ptrdiff_t>::max(); }

  /// Takes n off the count. REQUIRES: 0 <= n <= count. O(waiters) at zero. Never gives the worker away.
  void count_down(std::ptrdiff_t n = 1) noexcept {
    guard_.lock();
    count_ -= n;
    if (count_ > 0 || waiters_.empty()) {
      guard_.unlock();
    } else {
      wake_all_and_unlock();
    }
  }

  /// Is the count zero? Never waits, never says no for no reason.
  bool try_wait() const noexcept {
    const detail::spin_guard hold(guard_);
    return count_ <= 0;
  }

  /// Waits until the count is zero.
  void wait() const noexcept {
    guard_.lock();
    if (count_ <= 0) return guard_.unlock();
    wait_and_unlock();
  }

  /// count_down(n), then wait().
  void arrive_and_wait(std::ptrdiff_t n = 1) noexcept {
    count_down(n);
    wait();
  }

 private:
  LAGOM_EXPORT void wait_and_unlock() const noexcept LAGOM_THREAD_SAFETY(release_capability(guard_));
  LAGOM_EXPORT void wake_all_and_unlock() noexcept LAGOM_THREAD_SAFETY(release_capability(guard_));

  mutable detail::spin_lock guard_;
  std::ptrdiff_t count_;
  mutable detail::wait_queue waiters_;
};

}  // namespace v0
}  // namespace lagom
