// SPDX-License-Identifier: BSL-1.0
#include <lagom/shared_mutex.hpp>

#include "wait.hpp"

namespace lagom {
inline namespace v0 {

using namespace detail;

void shared_mutex::wait_and_unlock(kind who) noexcept {
  waiter w;
  w.flag = who == kind::writer;
  // Handed over: whoever made us runnable has entered us in holders_.
  detail::wait_and_unlock(guard_, waiters_, w, wait_reason::shared_mutex, never, stoppable::no);
}

void shared_mutex::hand_over_and_unlock() noexcept {
  if (waiters_.front()->flag) {
    holders_ = writer;
    wake_first_and_unlock(guard_, waiters_);
    return;
  }
  wake_batch batch;
  for (waiter* w = waiters_.front(); w && !w->flag; w = waiters_.front()) {
    batch.add(waiters_.pop()->who);
    ++holders_;
  }
  guard_.unlock();
}

}  // namespace v0
}  // namespace lagom
