// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <ostream>
#include <sstream>

#include "os/clock.hpp"
#include "runtime_core.hpp"
#include "worker.hpp"

// What a runtime can tell about itself.
namespace lagom {
inline namespace v0 {
namespace detail {

std::vector<fiber_info> runtime_core::list_fibers() const {
  struct request {
    const runtime_core* core;
    std::int64_t now;
    std::vector<fiber_info> found;
  } r{this, os::monotonic_ns(), {}};
  for_each_block(
      [](fiber_block& f, void* argument) {
        auto& wanted = *static_cast<request*>(argument);
        // acquire: pairs with commit(); a fiber that is being made or unmade meanwhile may be missed or listed.
        if (f.core.load(std::memory_order_acquire) != wanted.core) return;
        const block_state state = f.state.load(std::memory_order_relaxed);  // as of some recent moment
        if (state == block_state::free || state == block_state::exited) return;
        fiber_info info;
        std::string name;
        {
          spin_guard hold(f.end_lock);
          if (f.core.load(std::memory_order_relaxed) != wanted.core) return;  // guarded by the lock
          info.id = f.serial;
          info.state = visible(state);
          if (state == block_state::parked) info.wait_reason = to_string(f.reason.load(std::memory_order_relaxed));  // recent
          info.since = std::chrono::nanoseconds(std::max<std::int64_t>(0, wanted.now - f.state_since.load(std::memory_order_relaxed)));  // recent
          if (f.attrs) info.name = f.attrs->name;
        }
        wanted.found.push_back(std::move(info));
      },
      &r);
  std::sort(r.found.begin(), r.found.end(), [](const fiber_info& a, const fiber_info& b) { return a.id < b.id; });
  return r.found;
}

void runtime_core::dump(std::ostream& out) const {
  const std::vector<fiber_info> fibers = list_fibers();
  out << "lagom: " << workers.size() << " workers, " << fibers.size() << " fibers\n";
  const std::int64_t now = os::monotonic_ns();
  for (const auto& w : workers) {
    const worker::snapshot s = w->look(now);
    out << "worker " << w->index << ": " << (idle.is_idle(w->index) ? "sleeping" : "awake") << ", " << s.queued << " waiting, "
        << s.switches << " switches\n";
  }
  for (const fiber_info& f : fibers) {
    out << "fiber " << f.id;
    if (!f.name.empty()) out << " '" << f.name << "'";
    out << ": " << to_string(f.state);
    if (!f.wait_reason.empty()) out << " (" << f.wait_reason << ")";
    out << " since " << f.since.count() / 1000 << " us\n";
  }
}

void runtime_core::report_deadlock() {
  std::ostringstream text;
  dump(text);
  log("lagom: every fiber is parked and nothing is armed that could wake one: a deadlock, unless a thread outside will");
  std::istringstream lines(text.str());
  for (std::string line; std::getline(lines, line);) log(line);
}

worker::snapshot worker::look(std::int64_t now) const noexcept {
  // relaxed: each figure as of some recent moment.
  snapshot s{};
  const std::int64_t began = started_.load(std::memory_order_relaxed);
  const std::int64_t since = idle_since_.load(std::memory_order_relaxed);
  s.idle = idle_ns_.load(std::memory_order_relaxed) + (since ? std::max<std::int64_t>(0, now - since) : 0);
  s.busy = began ? std::max<std::int64_t>(0, now - began - s.idle) : 0;
  s.switches = steps_.load(std::memory_order_relaxed);
  s.steals = steals_.load(std::memory_order_relaxed);
  s.migrations_in = migrations_in_.load(std::memory_order_relaxed);
  s.wakeups = wakeups_.load(std::memory_order_relaxed);
  s.spawned = spawned_.load(std::memory_order_relaxed);
  s.finished = finished_.load(std::memory_order_relaxed);
  s.queued = waiting_.load(std::memory_order_relaxed);
  s.longest_wait = static_cast<std::int64_t>(latency_.maximum());
  return s;
}

histogram snapshot_of(const trace::histogram& h);

runtime_stats runtime_core::stats() const {
  runtime_stats all;
  const std::int64_t now = os::monotonic_ns();
  for (const auto& w : workers) {
    const worker::snapshot s = w->look(now);
    worker_stats one;
    one.index = w->index;
    if (pin_used == pin::cpu) {
      one.cpus.set(machine.cpus[plan.cpu_of_worker[w->index]].os_index);
    } else {
      for (const topology::cpu& c : machine.cpus) one.cpus.set(c.os_index);
    }
    one.busy = std::chrono::nanoseconds(s.busy);
    one.idle = std::chrono::nanoseconds(s.idle);
    one.switches = s.switches;
    one.steals = s.steals;
    one.migrations_in = s.migrations_in;
    one.wakeups = s.wakeups;
    one.queued = s.queued;
    one.longest_wait = std::chrono::nanoseconds(s.longest_wait);
    all.workers.push_back(std::move(one));
    all.finished += s.finished;
    all.spawned += s.spawned;
    all.wake_latency.merge(snapshot_of(w->wake_latency()));
  }
  all.spawned += spawned_outside.load(std::memory_order_relaxed) - abandoned.load(std::memory_order_relaxed);  // recent
  all.fibers = static_cast<std::size_t>(live());
  all.uncaught = uncaught.load(std::memory_order_relaxed);  // recent
  return all;
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
