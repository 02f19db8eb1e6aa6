// SPDX-License-Identifier: BSL-1.0
#include "runtime_core.hpp"

#include <algorithm>
#include <climits>
#include <cstdlib>

#include <lagom/this_fiber.hpp>

#include "after_fork.hpp"
#include "lock_report.hpp"
#include "debugger.hpp"
#include "os/assert.hpp"
#include "os/clock.hpp"
#include "os/futex.hpp"
#include "os/limits.hpp"
#include "os/signals.hpp"
#include "topology/bind.hpp"
#include "topology/discover.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

namespace {

// Workers may be added later, up to here; one more is kept for a substitute.
std::size_t most_workers(std::size_t at_first, const topology::machine& m) {
  constexpr std::size_t small_machine = 16;
  return std::max({at_first, 2 * m.cpus.size(), small_machine}) + 1;
}

unsigned choose_worker_count(const runtime_options& o, const topology::machine& m) {
  return o.workers != 0 ? o.workers : workers_for(m.cpus.size(), os::cpu_quota(o.cgroup_root));
}

}  // namespace

unsigned workers_for(std::size_t cpus, std::optional<double> quota) noexcept {
  std::size_t n = cpus;
  if (quota) n = std::min(n, static_cast<std::size_t>(std::min(*quota + 0.999999, 65535.0)));
  return std::max(static_cast<unsigned>(n), 1u);
}

runtime_core::runtime_core(runtime& o, runtime_options checked, scheduler::features checked_knobs)
    : owner(o), options(std::move(checked)), knobs(checked_knobs), machine(topology::discover(options.topology)),
      plan(topology::plan_workers(machine, choose_worker_count(options, machine))),
      whole_plan(topology::plan_workers(machine, most_workers(plan.cpu_of_worker.size(), machine))),
      workers(whole_plan.cpu_of_worker.size()), seats(machine, whole_plan),
      idle(static_cast<unsigned>(seats.map().worker_at.size())), published(idle.words()), overseer(*this), dumper(*this),
      offloads(*this, options.max_blocking_threads, options.blocking_keep_alive.count()),
      forwards_clamps(options.forward_clamps && clamp_messenger::is_possible(options.log)),
      chaos(options.chaos_seed != 0) {
  const auto n = static_cast<unsigned>(plan.cpu_of_worker.size());
  const auto quota = os::cpu_quota(options.cgroup_root);
  // Spinning on a CPU that somebody else of us needs would take the time from where the work is.
  may_spin = !plan.oversubscribed && (!quota || *quota >= n);
  pin_used = options.pin_mode;
  if (pin_used == pin::automatic) {
    const bool subset = machine.cpus.size() < machine.online;
    pin_used = subset && !quota && n == machine.cpus.size() ? pin::cpu : pin::none;
  }
  watch_forks();
  describe_to_debuggers();
  os::set_fatal_hook(&dump_all);
  os::watch_locks(&locks_of_caller);
  os::install_fault_handler(&describe_overflow);
  default_stack = whole_stack(options.stack_size, 0);
  wanted_.store(n, std::memory_order_relaxed);  // nobody else is there yet
  for (unsigned i = 0; i < n; ++i) {
    workers.next_slot() = std::make_unique<worker>(*this, i, ring_of(i));
    workers.publish();
  }
}

std::vector<unsigned> runtime_core::ring_of(std::size_t index) const {
  std::vector<unsigned> ring;
  for (const topology::neighbour& near : topology::ring_of_worker(machine, whole_plan, index)) {
    ring.push_back(static_cast<unsigned>(near.index));
  }
  return ring;
}

runtime_core::~runtime_core() {
  // Handles may outlive the runtime: let them not look for it.
  for_each_block(
      [](fiber_block& f, void* core) {
        // relaxed: it became ours before, if at all. Others' locks are not touched: in a child of fork() nobody opens them.
        if (f.core.load(std::memory_order_relaxed) != core) return;
        spin_guard hold(f.end_lock);
        if (f.core.load(std::memory_order_relaxed) != core) return;  // guarded by the lock
        f.core.store(nullptr, std::memory_order_release);            // pairs with the look at a handle's block
        f.home.store(nullptr, std::memory_order_relaxed);            // its fiber has ended
      },
      this);
  os::remove_fault_handler();
}

std::size_t runtime_core::whole_stack(std::size_t usable, std::size_t callable) const noexcept {
  const std::size_t page = os::page_size();
  return (usable * stack_scale() + callable + page - 1) / page * page;
}

void runtime_core::start() {
  threads_.reserve(workers.capacity());
  try {
    for (const auto& w : workers) {
      threads_.emplace_back("lagom-" + std::to_string(w->index), [&w = *w] { w.run(); });
    }
    {
      const std::lock_guard hold(staff_lock_);
      is_running_ = true;
    }
    overseer.start();
    if (options.dump_on_sigquit) dumper.start();
  } catch (...) {
    terminate();
    throw;
  }
}

namespace {

std::atomic<bool> process_is_exiting{false};
constexpr std::int64_t patience_at_exit_ns = 1'000'000'000;

}  // namespace

// Called when a fiber begins, so after a static runtime has been built and its destructor registered: handlers are called
// in reverse order, ours before that destructor.
void runtime_core::watch_for_exit() noexcept {
  if (knows_of_exit_.exchange(true, std::memory_order_relaxed)) return;  // once
  static_cast<void>(std::atexit([] { process_is_exiting.store(true, std::memory_order_relaxed); }));  // read by the same thread of control
}

void runtime_core::abandon_at_exit() noexcept {
  // The same thread of control has set it, or nobody.
  if (!process_is_exiting.load(std::memory_order_relaxed)) os::fatal("a runtime is destroyed by one of its own fibers");
  request_stop();
  const std::int64_t until = os::saturating_add(os::monotonic_ns(), patience_at_exit_ns);
  for (std::int64_t now = os::monotonic_ns(); live() > 1 && now < until; now = os::monotonic_ns()) {
    arm();
    park(wait_reason::sleep, now + 1'000'000, stoppable::no);
  }
}

void runtime_core::terminate() noexcept {
  dumper.stop();
  overseer.stop();
  {
    const std::lock_guard hold(staff_lock_);
    is_running_ = false;
  }
  terminating.store(true, std::memory_order_seq_cst);  // before the notifications; pairs with worker::has_reason_to_stay
  for (const auto& w : workers) w->notify();
  for (os::native_thread& t : threads_) t.join();
  threads_.clear();
  const auto wait_for_visitors = [this] {
    while (visitors.load(std::memory_order_acquire) != 0) os::thread_yield();  // pairs with worker::send(); it is short
  };
  wait_for_visitors();
  for (const auto& w : workers) w->drop_notices();
  wait_for_visitors();  // who has seen a notice with a worker of ours
}

void runtime_core::shut_down() noexcept {
  wait_until_empty(never);
  offloads.stop();
  terminate();
}

void runtime_core::worker_started(worker& w) {
  switch (pin_used) {
    case pin::cpu: topology::bind_to_cpu(machine, whole_plan.cpu_of_worker[w.index]); break;
    case pin::llc: topology::bind_to_llc(machine, whole_plan.cpu_of_worker[w.index]); break;
    default: break;
  }
  os::set_timer_slack_ns(1);  // the default of 50 us would be the largest part of a sleeping fiber's lateness
  if (options.on_worker_start) options.on_worker_start(w.index);
}

void runtime_core::worker_stopped(worker& w) noexcept {
  if (options.on_worker_stop) options.on_worker_stop(w.index);
}

bool runtime_core::try_search(std::atomic<bool>& mark) noexcept {
  if (mark.load(std::memory_order_relaxed)) return true;  // asked to: counted already
  const auto most = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(workers.size()) / 2);
  if (searchers.fetch_add(1, std::memory_order_relaxed) >= most) {  // a hint: it limits, it guards nothing
    searchers.fetch_sub(1, std::memory_order_relaxed);              // taken back
    return false;
  }
  mark.store(true, std::memory_order_relaxed);  // the worker's own
  return true;
}

std::uint64_t runtime_core::live() const noexcept {
  // Finished first: whoever is counted there was counted as spawned before, so the difference is never too small.
  std::uint64_t finished = 0, spawned = 0;
  for (const auto& w : workers) finished += w->finished();
  finished += abandoned.load(std::memory_order_seq_cst);        // pairs with abandon()
  for (const auto& w : workers) spawned += w->spawned();
  spawned += spawned_outside.load(std::memory_order_acquire);   // pairs with prepare()
  return spawned - finished;
}

// Counts what every worker that is announced as idle has counted before. The look itself is what is wanted: it is in one
// order with the announcements, and takes over what they publish.
bool runtime_core::is_empty() const noexcept {
  static_cast<void>(idle.count());
  return live() == 0;
}

void runtime_core::announce_end() noexcept {
  if (!is_empty()) return;
  ended_signal.fetch_add(1, std::memory_order_seq_cst);  // before the wake: the futex compares it
  os::futex_wake(ended_signal, INT_MAX);
}

bool runtime_core::wait_until_empty(std::int64_t expiry) {
  // seq_cst: before is_empty(); pairs with fiber_ended().
  someone_waits_for_end.fetch_add(1, std::memory_order_seq_cst);
  bool empty = false;
  for (;;) {
    const std::uint32_t seen = ended_signal.load(std::memory_order_seq_cst);  // before the count; pairs with announce_end()
    empty = is_empty();
    if (empty || os::futex_wait(ended_signal, seen, expiry) == os::futex_result::expired) break;
  }
  someone_waits_for_end.fetch_sub(1, std::memory_order_relaxed);
  return empty || live() == 0;
}

void runtime_core::request_stop() noexcept {
  if (is_parents()) return;
  // seq_cst: before the walk; pairs with commit(), which makes its fiber visible and then looks here.
  if (stopping.exchange(true, std::memory_order_seq_cst)) return;
  {
    const non_migratable here;  // the standard's class knows who is calling back by his thread
    stop_source.request_stop();
  }
  for_each_block(
      [](fiber_block& f, void* core) {
        // seq_cst: after `stopping` is set; pairs with commit().
        if (f.core.load(std::memory_order_seq_cst) == core) detail::request_stop(f, static_cast<runtime_core*>(core));
      },
      this);
}

void runtime_core::check_process(const char* what) const {
  if (!is_parents()) return;
  throw std::system_error(errc::forked, std::string("lagom: ") + what + " in a child of fork(), on the parent's runtime; the child may make its own");
}

void runtime_core::log(std::string_view line) const {
  if (options.log) options.log(line);
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
