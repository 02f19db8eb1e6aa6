// SPDX-License-Identifier: BSL-1.0
#include "monitor.hpp"

#include <algorithm>
#include <limits>

#include "os/futex.hpp"
#include "os/memory.hpp"
#include "runtime_core.hpp"
#include "worker.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

void monitor::start() {
  seen_.resize(core_.workers.capacity());
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

// What it costs to wake somebody is not left to be found out by the first who have to wait for it.
void monitor::try_wake_ups() noexcept {
  for (unsigned i = 0; i < wake_cost_trials; ++i) {
    const std::uint32_t seen = signal_.load(std::memory_order_seq_cst);  // pairs with wake()
    os::futex_wait(signal_, seen, os::monotonic_ns() + monitor_tick_ns);
    const unsigned sleeper = core_.idle.claim_any(0);
    if (sleeper != idle_workers::none) core_.workers[core_.seats.map().worker_at[sleeper]]->wake_up(os::monotonic_ns());
  }
}

void monitor::run() {
  std::int64_t tick = monitor_tick_ns;
  try_wake_ups();
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
        // Each stack holds two of the mappings that the process may have: others may need them.
        if (os::preferred_guard() == os::guard_kind::mprotect) core_.stacks.collect();
        continue;
      }
      reported_ = false;
      tick = monitor_tick_ns;
      continue;
    }
    const bool soon = look(now);
    tick = soon ? monitor_tick_ns : std::min(tick * 2, somebody_waits_ ? even_out_interval_ns : monitor_tick_max_ns);
    os::futex_wait(signal_, seen, now + tick);
  }
}

bool monitor::look(std::int64_t now) {
  bool soon = false, anybody_held = false;
  for (const auto& w : core_.workers) {
    soon |= attend(*w, now);
    anybody_held |= w->is_held();
  }
  remind(now);
  core_.count_awake(now);
  if (has_substitute_ && !anybody_held) {
    core_.dismiss_substitute();
    has_substitute_ = false;
  }
  if (now >= next_follow_) {
    next_follow_ = now + follow_interval_ns;
    core_.follow_cpus();
  }
  return soon;
}

// A fiber that is alone on its worker asks nobody at its preemption points, so the worker would never compare its load with
// others'. It is told to, as long as somebody waits elsewhere.
void monitor::remind(std::int64_t now) noexcept {
  const auto waits = [](const std::unique_ptr<worker>& w) { return w->waiting() > 0; };
  somebody_waits_ = std::any_of(core_.workers.begin(), core_.workers.end(), waits);
  const bool may_be_misfit = core_.seats.map().is_hybrid;  // who is alone on a slow CPU asks nobody either
  if ((!somebody_waits_ && !may_be_misfit) || now < next_reminder_) return;
  next_reminder_ = now + even_out_interval_ns;
  for (const auto& w : core_.workers) {
    if (w->waiting() == 0 && w->running()) w->ask_to_look();
  }
}

// A worker with work that has not moved since the last look cannot help itself.
bool monitor::attend(worker& w, std::int64_t now) {
  sight& s = seen_[w.index];
  if (core_.forwards_clamps) w.forward_clamps(now, core_.options.log);  // a fiber may compute for long without a step of its worker
  const std::uint64_t progress = w.progress();
  // It may also stand still between two fibers, in a callback of the user's or without a CPU: then others may help, but
  // nobody is rude.
  const bool stands_still = progress == s.progress && !core_.idle.is_idle(w.seat);
  const bool held = stands_still && w.running();
  if (!held) {
    s = {.progress = progress, .held_since = now};
    if (w.is_held()) w.set_held(false);
  } else {
    if (s.cpu_used < 0) {
      s.held_since = now;  // may be later than it was, but goes with the other
      s.cpu_used = os::cpu_ns_of_thread(w.thread_id());
    }
  }
  if (stands_still && w.timers().next_expiry() <= now) w.timers().fire(os::monotonic_ns());
  const bool has_work = w.waiting() > 0 || w.has_mail();
  if (!has_work) {
    s.waiting_since = 0;
  } else if (s.waiting_since == 0) {
    s.waiting_since = now;
  }
  if (held && rescue(w, now)) return true;
  if (!has_work) return false;
  if (!core_.idle.any()) return held;
  if ((stands_still || w.is_overloaded()) && w.waiting() > w.bound()) core_.call_helper_for(w);
  if (w.bound() != 0) {
    const unsigned helper = w.helper_for_bound();
    if (helper != idle_workers::none) core_.call(helper);
  }
  return true;
}

// The system gives the thread no CPU: that is nobody's rudeness, mostly over soon, and a substitute would get none either.
bool monitor::is_starved(const worker& w, const sight& s, std::int64_t now) noexcept {
  const std::int64_t used = os::cpu_ns_of_thread(w.thread_id()) - s.cpu_used;
  return used < (now - s.held_since) / 4 && !os::is_thread_blocked(w.thread_id());
}

// True: the worker is held for so long that others serve what it has.
bool monitor::rescue(worker& w, std::int64_t now) {
  sight& s = seen_[w.index];
  const std::int64_t after = core_.options.rescue_after.count();
  if (after == 0 || now - s.held_since < after) return false;
  if (now - s.held_since < starvation_patience * after && is_starved(w, s, now)) return false;
  w.set_held(true);
  if (core_.descriptors.anybody_waits()) w.poll_from_outside();
  const bool is_fit_there = std::any_of(core_.workers.begin(), core_.workers.end(), [](const auto& other) { return other->unfitness() == 0; });
  const std::int64_t waited = s.waiting_since == 0 ? 0 : now - s.waiting_since;
  if (is_fit_there) {
    if (waited >= after) w.evacuate();
  } else if (waited >= substitute_patience * after) {
    has_substitute_ = core_.call_substitute();
    w.evacuate();
  }
  const std::int64_t stuck = core_.options.stuck_threshold.count();
  if (stuck != 0 && !s.is_reported && now - s.held_since >= stuck) {
    s.is_reported = true;
    core_.report_stuck(w, now - s.held_since);
  }
  return true;
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
