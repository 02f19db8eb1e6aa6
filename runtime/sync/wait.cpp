// SPDX-License-Identifier: BSL-1.0
#include "wait.hpp"

#include <system_error>

#include <lagom/error.hpp>

namespace lagom {
inline namespace v0 {
namespace detail {

wake wait_and_unlock(spin_lock& lock, wait_queue& queue, waiter& w, wait_reason reason, std::int64_t expiry,
                     stoppable stop) noexcept {
  if (expiry <= 0) {
    lock.unlock();
    preemption_point();  // a loop that polls with zero time-outs must not keep the others from running
    return wake::expired;
  }
  w.who = arm();
  queue.push_back(w);
  lock.unlock();
  return park_in_queue(lock, queue, w, reason, expiry, stop);
}

wake park_in_queue(spin_lock& lock, wait_queue& queue, waiter& w, wait_reason reason, std::int64_t expiry,
                   stoppable stop) noexcept {
  const wake how = park(reason, expiry, stop);
  if (how == wake::notified) return how;
  spin_guard guard(lock);
  if (!w.linked) return wake::notified;
  queue.unlink(w);
  return how;
}

void wake_first_and_unlock(spin_lock& lock, wait_queue& queue) noexcept {
  const ticket who = queue.pop()->who;
  lock.unlock();
  unpark(who);
}

void throw_stopped() { throw std::system_error(make_error_code(errc::stopped)); }

}  // namespace detail
}  // namespace v0
}  // namespace lagom
