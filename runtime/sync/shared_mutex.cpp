// SPDX-License-Identifier: BSL-1.0
#include <lagom/shared_mutex.hpp>

#include "wait.hpp"

namespace lagom {
inline namespace v0 {

using namespace detail;

bool shared_mutex::wait_until_and_unlock(kind who, std::int64_t expiry) noexcept {
  waiter w;
  w.flag = who == kind::writer;
  const wake how = detail::wait_and_unlock(guard_, waiters_, w, wait_reason::shared_mutex, expiry, stoppable::no);
  // Handed over: whoever made us runnable has entered us in holders_.
  if (how == wake::notified) return true;
  // A writer that gives up was perhaps all that kept the readers behind it from joining those inside.
  guard_.lock();
  if (holders_ != writer && !waiters_.empty() && !waiters_.front()->flag) {
    hand_over_and_unlock();
  } else {
    guard_.unlock();
  }
  return false;
}

void shared_mutex::wait_and_unlock(kind who) noexcept { wait_until_and_unlock(who, never); }

bool shared_mutex::try_lock_until_ns(std::int64_t expiry) noexcept {
  guard_.lock();
  if (holders_ != 0) return wait_until_and_unlock(kind::writer, expiry);
  holders_ = writer;
  guard_.unlock();
  return true;
}

bool shared_mutex::try_lock_shared_until_ns(std::int64_t expiry) noexcept {
  guard_.lock();
  if (holders_ == writer || !waiters_.empty()) return wait_until_and_unlock(kind::reader, expiry);
  ++holders_;
  guard_.unlock();
  return true;
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
