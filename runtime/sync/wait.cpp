// SPDX-License-Identifier: BSL-1.0
#include "wait.hpp"

#include <system_error>

#include <lagom/error.hpp>
#include <lagom/this_fiber.hpp>

namespace lagom {
inline namespace v0 {
namespace detail {

bool is_over_at_once(std::int64_t expiry) noexcept {
  return expiry != never && (expiry <= 0 || expiry <= monotonic_now());
}

void give_way_instead_of_waiting(std::int64_t expiry) noexcept {
  // Somebody who polls with time-outs that are over before the wait has begun must not keep the others, among them
  // whoever he waits for, from running. Zero asks for no wait at all: then only if the slice is used up.
  expiry <= 0 ? this_fiber::checkpoint() : this_fiber::yield();
}

wake wait_and_unlock(spin_lock& lock, wait_queue& queue, waiter& w, wait_reason reason, std::int64_t expiry,
                     stoppable stop) noexcept {
  if (is_over_at_once(expiry)) {
    lock.unlock();
    give_way_instead_of_waiting(expiry);
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
  lock.lock();
  const bool gives_up = w.linked;
  if (gives_up) queue.unlink(w);
  lock.unlock();
  if (!gives_up) return wake::notified;
  if (how == wake::expired) this_fiber::checkpoint();  // the time may have been over when park() looked
  return how;
}

void wake_first_and_unlock(spin_lock& lock, wait_queue& queue) noexcept {
  const ticket who = queue.pop()->who;
  lock.unlock();
  unpark(who);
}

void wake_all_and_unlock(spin_lock& lock, wait_queue& queue) noexcept {
  wake_batch batch;
  while (waiter* w = queue.pop()) batch.add(w->who);
  lock.unlock();
}

void throw_stopped() { throw std::system_error(make_error_code(errc::stopped)); }

}  // namespace detail
}  // namespace v0
}  // namespace lagom
