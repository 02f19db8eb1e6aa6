// SPDX-License-Identifier: BSL-1.0
#include <lagom/semaphore.hpp>

#include "wait.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

void semaphore_core::acquire_slowly() {
  waiter w;
  // Notified means handed over: the permit is ours, and free_ was never touched.
  if (wait_and_unlock(guard_, waiters_, w, wait_reason::semaphore) != wake::notified) throw_stopped();
}

bool semaphore_core::try_acquire_until_ns(std::int64_t expiry) noexcept {
  if (take_or_stay()) return true;
  waiter w;
  return wait_and_unlock(guard_, waiters_, w, wait_reason::semaphore, expiry) == wake::notified;
}

void semaphore_core::hand_over_and_unlock(std::ptrdiff_t n) noexcept {
  if (n == 1) {
    wake_first_and_unlock(guard_, waiters_);
  } else {
    wake_batch batch;
    for (; n > 0; --n) {
      waiter* w = waiters_.pop();
      if (!w) break;
      batch.add(w->who);
    }
    free_ += n;
    guard_.unlock();
  }
  preemption_point();
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
