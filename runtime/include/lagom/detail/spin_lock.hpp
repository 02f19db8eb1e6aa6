// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>

#include <lagom/detail/export.hpp>

#if defined(__clang__)
#define LAGOM_THREAD_SAFETY(x) __attribute__((x))
#else
#define LAGOM_THREAD_SAFETY(x)
#endif

namespace lagom {
inline namespace v0 {
namespace detail {

LAGOM_EXPORT void spin_wait(const std::atomic<bool>& held) noexcept;

/// Guards a handful of instructions: the queue inside a primitive, a run queue. Works on fibers and threads alike, so
/// nothing inside may park, allocate or call user code. Not fair; waits by pausing, then by giving the OS thread away.
class LAGOM_THREAD_SAFETY(capability("spin_lock")) spin_lock {
 public:
  constexpr spin_lock() noexcept = default;
  spin_lock(const spin_lock&) = delete;
  spin_lock& operator=(const spin_lock&) = delete;

  bool try_lock() noexcept LAGOM_THREAD_SAFETY(try_acquire_capability(true)) {
    // acquire: pairs with the release in unlock(). The plain load first keeps the line shared while somebody holds it.
    return !held_.load(std::memory_order_relaxed) && !held_.exchange(true, std::memory_order_acquire);
  }
  void lock() noexcept LAGOM_THREAD_SAFETY(acquire_capability()) {
    // acquire: pairs with the release in unlock().
    while (held_.exchange(true, std::memory_order_acquire)) spin_wait(held_);
  }
  void unlock() noexcept LAGOM_THREAD_SAFETY(release_capability()) {
    // release: pairs with the acquire in lock() and try_lock().
    held_.store(false, std::memory_order_release);
  }
  bool is_locked() const noexcept { return held_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> held_{false};
};

class LAGOM_THREAD_SAFETY(scoped_lockable) spin_guard {
 public:
  explicit spin_guard(spin_lock& lock) noexcept LAGOM_THREAD_SAFETY(acquire_capability(lock)) : lock_(lock) { lock_.lock(); }
  ~spin_guard() LAGOM_THREAD_SAFETY(release_capability()) { lock_.unlock(); }
  spin_guard(const spin_guard&) = delete;
  spin_guard& operator=(const spin_guard&) = delete;

 private:
  spin_lock& lock_;
};

}  // namespace detail
}  // namespace v0
}  // namespace lagom
