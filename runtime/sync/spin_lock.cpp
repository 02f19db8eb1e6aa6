// SPDX-License-Identifier: BSL-1.0
#include <lagom/detail/spin_lock.hpp>

#include "os/thread.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

// The holder does a few dozen instructions. If it has not ended after some hundred pauses, its OS thread has lost its
// CPU, perhaps to us: from then on each look gives the CPU away.
void spin_wait(const std::atomic<bool>& held) noexcept {
  constexpr int pauses = 200;
  for (int i = 0; i < pauses; ++i) {
    os::cpu_relax();
    // relaxed: only a hint when to try again; the exchange in lock() is what acquires.
    if (!held.load(std::memory_order_relaxed)) return;
  }
  while (held.load(std::memory_order_relaxed)) os::thread_yield();  // relaxed: as above
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
