// SPDX-License-Identifier: BSL-1.0
#include "monitor.hpp"

#include <algorithm>
#include <limits>

#include "os/futex.hpp"
#include "runtime_core.hpp"
#include "worker.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

void monitor::start() {
  steps_.assign(core_.workers.size(), 0);
  thread_ = os::native_thread("lagom-monitor", [this] { run(); });
}

void monitor::stop() noexcept {
  stopping_.store(true, std::memory_order_seq_cst);  // before the wake; pairs with run()
  wake();
  if (thread_.joinable()) thread_.join();
}

void monitor::wake() noexcept {
  signal_.fetch_add(1, std::memory_order_seq_cst);  // before the wake: the futex compares it
  os::futex_wake(signal_, 1);
}

void monitor::run() {
  std::int64_t tick = monitor_tick_ns;
  while (!stopping_.load(std::memory_order_seq_cst)) {  // pairs with stop()
    const std::uint32_t seen = signal_.load(std::memory_order_seq_cst);  // pairs with wake()
    const std::int64_t now = os::monotonic_ns();
    const bool all_sleep = core_.idle.count() == core_.workers.size();
    if (all_sleep && tick >= monitor_tick_max_ns) {
      core_.stacks.cool();
      asleep_.store(true, std::memory_order_seq_cst);  // before the last look; pairs with nudge()
      // A worker may have got up between our look and our announcement: it has not seen that we sleep.
      const bool still = core_.idle.count() == core_.workers.size() && !stopping_.load(std::memory_order_seq_cst);
      const std::int64_t until = reported_ ? os::never : now + deadlock_after_ns;
      if (still) os::futex_wait(signal_, seen, until);
      asleep_.store(false, std::memory_order_relaxed);  // a hint
      if (still && signal_.load(std::memory_order_relaxed) == seen) {
        look_for_deadlock(now);
        reported_ = true;  // once per silence
        continue;
      }
      reported_ = false;
      tick = monitor_tick_ns;
      continue;
    }
    const bool somebody_waits = look();
    tick = somebody_waits ? monitor_tick_ns : std::min(tick * 2, monitor_tick_max_ns);
    os::futex_wait(signal_, seen, now + tick);
  }
}

// A worker with work that has not moved since the last look cannot help itself.
bool monitor::look() {
  bool somebody_waits = false;
  for (std::size_t i = 0; i < core_.workers.size(); ++i) {
    worker& w = *core_.workers[i];
    const std::uint64_t steps = w.steps();
    const bool held = steps == steps_[i] && !core_.idle.is_idle(static_cast<unsigned>(i));
    steps_[i] = steps;
    if (held && w.timers().next_expiry() <= os::monotonic_ns()) w.timers().fire(os::monotonic_ns());
    const bool has_work = w.waiting() > 0 || w.has_mail();
    if (!has_work || !core_.idle.any()) continue;
    somebody_waits = true;
    if (!held && !w.is_overloaded()) continue;
    const unsigned helper = core_.idle.claim_any(static_cast<unsigned>((i + 1) % core_.workers.size()));
    if (helper == idle_workers::none) continue;
    core_.searchers.fetch_add(1, std::memory_order_relaxed);  // a hint: it limits, it guards nothing
    core_.workers[helper]->make_searcher();
  }
  return somebody_waits;
}

// Everybody sleeps, and nothing is armed that could wake anybody: only a foreign thread could, if there is one.
void monitor::look_for_deadlock(std::int64_t) {
  if (!core_.options.log || core_.descriptors.anybody_waits() || core_.live() == 0) return;
  if (core_.offloads.look().calls > 0) return;
  for (const auto& w : core_.workers) {
    if (w->timers().next_expiry() != never || w->waiting() > 0 || w->has_mail()) return;
  }
  core_.report_deadlock();
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
