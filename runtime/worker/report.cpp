// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <cstdio>
#include <ostream>
#include <span>
#include <sstream>

#include "fiber/backtrace.hpp"
#include "fiber/stack_use.hpp"
#include "os/clock.hpp"
#include "os/descriptor_wait.hpp"
#include "os/symbols.hpp"
#include "runtime_core.hpp"
#include "worker.hpp"

// What a runtime can tell about itself.
namespace lagom {
inline namespace v0 {
namespace detail {

namespace {

// n: what snprintf said; it may have cut the line.
template <std::size_t Size>
void write_line(int fd, const char (&line)[Size], int n) noexcept {
  const std::size_t length = std::min(Size - 1, static_cast<std::size_t>(std::max(n, 0)));
  os::write_descriptor(fd, std::as_bytes(std::span(line, length)));
}

}  // namespace

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
        info.backtrace = trace_suspended(f);
        const stack_use use = use_of(f);
        info.stack_used = use.used;
        info.stack_size = use.size;
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
    out << "worker " << w->index << ": " << (idle.is_idle(w->seat) ? "sleeping" : "awake") << ", " << s.queued << " waiting, "
        << s.switches << " switches\n";
  }
  for (const fiber_info& f : fibers) {
    out << "fiber " << f.id;
    if (!f.name.empty()) out << " '" << f.name << "'";
    out << ": " << to_string(f.state);
    if (!f.wait_reason.empty()) out << " (" << f.wait_reason << ")";
    out << " since " << f.since.count() / 1000 << " us";
    if (f.stack_size != 0) out << ", stack " << f.stack_used / 1024 << " of " << f.stack_size / 1024 << " KiB";
    out << '\n';
    for (std::size_t i = 0; i < f.backtrace.size(); ++i) {
      out << "    #" << i << ' ' << f.backtrace[i] << ' ' << os::describe_code(f.backtrace[i]) << '\n';
    }
  }
}

// No lock, no allocation: the process is dying, perhaps inside one of them.
void runtime_core::dump_all(int fd) noexcept {
  for_each_block(
      [](fiber_block& f, void* to) {
        const block_state state = f.state.load(std::memory_order_relaxed);  // whatever is there
        if (state == block_state::free || state == block_state::exited) return;
        char line[160];
        const int n = std::snprintf(line, sizeof line, "fiber %llu: %s %s\n", static_cast<unsigned long long>(f.serial),
                                    to_string(visible(state)),
                                    state == block_state::parked ? to_string(f.reason.load(std::memory_order_relaxed)) : "");  // whatever is there
        write_line(*static_cast<int*>(to), line, n);
      },
      &fd);
}

// In a signal handler, on the alternate stack.
bool runtime_core::describe_overflow(void* address, int fd) noexcept {
  std::byte *low = nullptr, *high = nullptr;
  if (!find_guard(address, &low, &high)) return false;
  // Not always the caller: a wild pointer may hit anybody's.
  struct search {
    const std::byte* low;
    const fiber_block* found;
  } owner{low, nullptr};
  for_each_block(
      [](fiber_block& f, void* to) {
        auto& wanted = *static_cast<search*>(to);
        // relaxed: a hint, unless it is the caller.
        if (f.machine.stack_low == wanted.low && f.memory.load(std::memory_order_relaxed)) wanted.found = &f;
      },
      &owner);
  const fiber_block* f = owner.found;
  char line[256];
  const int n = std::snprintf(line, sizeof line,
                              "lagom: stack overflow in fiber %llu '%s': its stack is %p to %p (%zu KiB); spawn it with a larger "
                              "attributes::stack_size\n",
                              f ? static_cast<unsigned long long>(f->serial) : 0ull, f && f->attrs ? f->attrs->name.c_str() : "",
                              static_cast<void*>(low), static_cast<void*>(high), static_cast<std::size_t>(high - low) / 1024);
  write_line(fd, line, n);
  return true;
}

void runtime_core::note_stack_use(fiber_block& f) noexcept {
  const std::size_t used = use_of(*f.memory.load(std::memory_order_relaxed)).used;
  f.stack_used.store(used, std::memory_order_relaxed);  // statistics
  std::size_t most = stack_used_max.load(std::memory_order_relaxed);  // statistics
  while (used > most && !stack_used_max.compare_exchange_weak(most, used, std::memory_order_relaxed)) {  // statistics
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
  s.util = scheduler::utilization::unpack(usage_.load(std::memory_order_relaxed), usage_counted_.load(std::memory_order_relaxed)).at(now, s.busy);
  return s;
}

histogram snapshot_of(const trace::histogram& h);

runtime_stats runtime_core::stats() const {
  runtime_stats all;
  const std::int64_t now = os::monotonic_ns();
  for (const auto& w : workers) {
    const worker::snapshot s = w->look(now);
    all.finished += s.finished;
    all.spawned += s.spawned;
    all.wake_latency.merge(snapshot_of(w->wake_latency()));
    if (w->in_reserve()) continue;
    worker_stats one;
    one.index = w->index;
    if (pin_used == pin::cpu) {
      one.cpus.set(machine.cpus[whole_plan.cpu_of_worker[w->index]].os_index);
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
    one.util = static_cast<int>(s.util);
    const scheduler::clamp_range clamps = w->clamps();
    one.util_min = clamps.min;
    one.util_max = clamps.max;
    all.workers.push_back(std::move(one));
  }
  all.spawned += spawned_outside.load(std::memory_order_relaxed) - abandoned.load(std::memory_order_relaxed);  // recent
  all.fibers = static_cast<std::size_t>(live());
  all.uncaught = uncaught.load(std::memory_order_relaxed);  // recent
  const blocking_pool::counts pool = offloads.look();
  all.blocking_threads = pool.threads;
  all.blocking_calls = pool.calls;
  all.stack_used_max = stack_used_max.load(std::memory_order_relaxed);  // recent
  return all;
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
