// SPDX-License-Identifier: BSL-1.0
#include "timer_queue.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

void timer_queue::publish() noexcept {
  next_.store(armed_.empty() ? never : armed_.begin()->expiry, std::memory_order_relaxed);  // a hint for others
}

void timer_queue::arm(timer_node& t) noexcept {
  spin_guard hold(lock_);
  armed_.insert(t);
  t.is_armed = true;
  publish();
}

void timer_queue::cancel(timer_node& t) noexcept {
  spin_guard hold(lock_);
  if (!t.is_armed) return;
  armed_.erase(armed_.iterator_to(t));
  t.is_armed = false;
  publish();
}

unsigned timer_queue::fire(std::int64_t now) noexcept {
  constexpr unsigned batch = 32;
  unsigned fired = 0;
  for (;;) {
    ticket due[batch];
    unsigned n = 0;
    {
      spin_guard hold(lock_);
      while (n < batch && !armed_.empty() && armed_.begin()->expiry <= now) {
        timer_node& t = *armed_.begin();
        armed_.erase(armed_.begin());
        t.is_armed = false;
        due[n++] = t.who;  // copied: the block may be in its next wait once the lock is free
      }
      publish();
    }
    for (unsigned i = 0; i < n; ++i) unpark(due[i], wake::expired);
    fired += n;
    if (n < batch) return fired;
  }
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
