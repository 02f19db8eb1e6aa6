// SPDX-License-Identifier: BSL-1.0
#include <lagom/event.hpp>

#include "wait.hpp"

namespace lagom {
inline namespace v0 {

using namespace detail;

void event::wait_slowly() {
  waiter w;
  if (wait_and_unlock(guard_, waiters_, w, wait_reason::event) != wake::notified) throw_stopped();
}

bool event::wait_until_ns(std::int64_t expiry) noexcept {
  if (pass_or_stay()) return true;
  waiter w;
  return wait_and_unlock(guard_, waiters_, w, wait_reason::event, expiry) == wake::notified;
}

void event::wake_and_unlock() noexcept {
  if (automatic_) {
    wake_first_and_unlock(guard_, waiters_);
    return;
  }
  set_ = true;
  wake_all_and_unlock(guard_, waiters_);
}

}  // namespace v0
}  // namespace lagom
