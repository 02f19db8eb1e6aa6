// SPDX-License-Identifier: BSL-1.0
#include <lagom/wait_group.hpp>

#include <stdexcept>

#include "wait.hpp"

namespace lagom {
inline namespace v0 {

using namespace detail;

void wait_group::add(std::ptrdiff_t n) {
  guard_.lock();
  std::ptrdiff_t sum = 0;
  if (__builtin_add_overflow(count_, n, &sum) || sum < 0) {
    guard_.unlock();
    throw std::invalid_argument("lagom::wait_group: the count would become negative or overflow");
  }
  count_ = sum;
  sum == 0 ? wake_all_and_unlock(guard_, waiters_) : guard_.unlock();
}

void wait_group::finish_and_unlock() {
  if (count_ != 1) {
    guard_.unlock();
    throw std::invalid_argument("lagom::wait_group: done() without add()");
  }
  count_ = 0;
  wake_all_and_unlock(guard_, waiters_);
}

wake wait_group::wait_until_ns(std::int64_t expiry) noexcept {
  guard_.lock();
  if (count_ == 0) {
    guard_.unlock();
    return wake::notified;
  }
  waiter w;
  return wait_and_unlock(guard_, waiters_, w, wait_reason::wait_group, expiry);
}

void wait_group::wait() {
  if (wait_until_ns(never) != wake::notified) throw_stopped();
}

}  // namespace v0
}  // namespace lagom
