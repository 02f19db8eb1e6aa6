// SPDX-License-Identifier: BSL-1.0
#include <lagom/call_once.hpp>

#include "wait.hpp"

namespace lagom {
inline namespace v0 {

using namespace detail;

bool once_flag::begin() noexcept {
  guard_.lock();
  while (running_ && !is_done()) {
    waiter w;
    wait_and_unlock(guard_, waiters_, w, wait_reason::call_once, never, stoppable::no);
    guard_.lock();
  }
  const bool is_mine = !is_done();
  running_ = running_ || is_mine;
  guard_.unlock();
  return is_mine;
}

void once_flag::end(outcome how) noexcept {
  guard_.lock();
  running_ = false;
  // release: pairs with is_done().
  done_.store(how == outcome::done, std::memory_order_release);
  wake_all_and_unlock(guard_, waiters_);
}

}  // namespace v0
}  // namespace lagom
