// SPDX-License-Identifier: BSL-1.0
#include "wait.hpp"

#include <system_error>

#include <lagom/error.hpp>
#include <lagom/this_fiber.hpp>

namespace lagom {
inline namespace v0 {
namespace detail {

void give_way_instead_of_waiting(std::int64_t expiry) noexcept {
  // Somebody who polls with time-outs that are over before the wait has begun must not keep the others, among them
  // whoever he waits for, from running. Zero asks for no wait at all: then only if the slice is used up.
  expiry <= 0 ? this_fiber::checkpoint() : this_fiber::yield();
}

wake settle(spin_lock& lock, wait_queue& queue, waiter& w, wake how) noexcept {
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
