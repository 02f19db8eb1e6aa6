// SPDX-License-Identifier: BSL-1.0
#include <lagom/future.hpp>

#include "wait.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

wake future_state_base::wait_until_ns(std::int64_t expiry) noexcept {
  if (is_ready()) return wake::notified;
  guard_.lock();
  if (is_ready()) {
    guard_.unlock();
    return wake::notified;
  }
  waiter w;
  return wait_and_unlock(guard_, waiters_, w, wait_reason::future, expiry);
}

void future_state_base::wait() { wait_for_ready(never); }

bool future_state_base::wait_for_ready(std::int64_t expiry) {
  const wake how = wait_until_ns(expiry);
  if (how == wake::stopped) throw_stopped();
  return how == wake::notified;
}

bool future_state_base::add(continuation& then) noexcept {
  const spin_guard hold(guard_);
  if (is_ready()) return false;
  *last_ = &then;
  last_ = &then.next;
  return true;
}

void future_state_base::claim() {
  const spin_guard hold(guard_);
  if (claimed_) throw_already_satisfied();
  claimed_ = true;
}

void future_state_base::disclaim() noexcept {
  const spin_guard hold(guard_);
  claimed_ = false;
}

void future_state_base::publish() noexcept {
  guard_.lock();
  // release: pairs with is_ready().
  ready_.store(true, std::memory_order_release);
  continuation* next = std::exchange(first_, nullptr);
  wake_all_and_unlock(guard_, waiters_);
  while (next) {
    continuation* const c = next;
    next = c->next;  // before run(), which may end it
    c->run();
  }
}

void future_state_base::publish_error(std::exception_ptr error) noexcept {
  error_ = std::move(error);
  publish();
}

void future_state_base::abandon() noexcept {
  {
    const spin_guard hold(guard_);
    if (claimed_) return;
    claimed_ = true;
  }
  publish_error(std::make_exception_ptr(std::future_error(std::future_errc::broken_promise)));
}

void future_state_base::retrieve() {
  const spin_guard hold(guard_);
  if (retrieved_) throw std::future_error(std::future_errc::future_already_retrieved);
  retrieved_ = true;
}

void throw_no_state() { throw std::future_error(std::future_errc::no_state); }
void throw_already_satisfied() { throw std::future_error(std::future_errc::promise_already_satisfied); }

}  // namespace detail
}  // namespace v0
}  // namespace lagom
