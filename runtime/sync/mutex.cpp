// SPDX-License-Identifier: BSL-1.0
#include <lagom/mutex.hpp>

#include "wait.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

bool mutex_core::lock_slowly(std::int64_t expiry) noexcept {
  waiter w;
  wake how = wait_and_unlock(guard_, waiters_, w, wait_reason::mutex, expiry, stoppable::no);
  if (how != wake::notified) return false;
  guard_.lock();
  waking_ = false;
  if (!held_) {
    held_ = true;
    guard_.unlock();
    return true;
  }
  // Passed over. If the time is over as well, nothing is lost by leaving: the owner's unlock() sees waking_ cleared.
  if (expiry != never && expiry <= monotonic_now()) {
    guard_.unlock();
    return false;
  }
  w.flag = true;
  w.who = arm();
  waiters_.push_front(w);
  guard_.unlock();
  // Unlinked by another means handed over, see the invariant.
  return park_in_queue(guard_, waiters_, w, wait_reason::mutex, expiry, stoppable::no) == wake::notified;
}

void mutex_core::wake_one_and_unlock() noexcept {
  waiter& first = *waiters_.pop();
  if (!first.flag) {
    held_ = false;
    waking_ = true;
  }
  const ticket who = first.who;
  guard_.unlock();
  unpark(who);
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
