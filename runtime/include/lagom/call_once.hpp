// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include <lagom/detail/export.hpp>
#include <lagom/detail/spin_lock.hpp>
#include <lagom/detail/wait_queue.hpp>

namespace lagom {
inline namespace v0 {

/// Remembers whether something has been done once; for call_once. May be constant-initialised, and must outlive all
/// calls.
class once_flag {
 public:
  constexpr once_flag() noexcept = default;
  once_flag(const once_flag&) = delete;
  once_flag& operator=(const once_flag&) = delete;

 private:
  template <class F, class... A>
  friend void call_once(once_flag& flag, F&& f, A&&... a);

  bool is_done() const noexcept {
    // acquire: pairs with end(); the caller sees what f has done.
    return done_.load(std::memory_order_acquire);
  }
  enum class outcome { failed, done };
  LAGOM_EXPORT bool begin() noexcept;  // true: the caller is the one who calls f
  LAGOM_EXPORT void end(outcome how) noexcept;

  std::atomic<bool> done_{false};
  detail::spin_lock guard_;
  bool running_ = false;
  detail::wait_queue waiters_;
};

/// Calls f unless a call for this flag has been completed already; returns when one is complete. Others wait meanwhile.
/// If f throws, the exception goes to its caller, and one of those who wait tries next. Fibers and plain threads; f may
/// wait. Waiting is not ended by a stop request. Must not be called by f for the same flag. One load once done.
template <class F, class... A>
void call_once(once_flag& flag, F&& f, A&&... a) {
  if (flag.is_done() || !flag.begin()) return;
  struct attempt {
    once_flag& flag;
    once_flag::outcome how = once_flag::outcome::failed;
    ~attempt() { flag.end(how); }
  } running{flag};
  std::invoke(std::forward<F>(f), std::forward<A>(a)...);
  running.how = once_flag::outcome::done;
}

}  // namespace v0
}  // namespace lagom
