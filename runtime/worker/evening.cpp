// SPDX-License-Identifier: BSL-1.0
#include <algorithm>

#include "os/clock.hpp"
#include "runtime_core.hpp"
#include "scheduler/capacity_fit.hpp"
#include "worker.hpp"

// What a busy worker does now and then: keep its figures, and see that shares are even across workers.
namespace lagom {
inline namespace v0 {
namespace detail {

void worker::note_usage(fiber_block& f, std::int64_t now, departure how) noexcept {
  scheduler::utilization u = usage_of(f);
  u.fold(now, f.cpu_time.load(std::memory_order_relaxed));  // just written by us
  set_usage(f, u);
  // What it was denied is not known here, so all of it counts as what it wanted.
  if (how == departure::parked) f.usual_usage = scheduler::estimate_after_sleep(f.usual_usage, u.value(), u.value());
}

void worker::fold_usage(std::int64_t now) noexcept {
  const auto counted = usage_counted_.load(std::memory_order_relaxed);                               // ours
  auto u = scheduler::utilization::unpack(usage_.load(std::memory_order_relaxed), counted);          // ours
  if (!u.is_due(now)) return;
  u.fold(now, look(now).busy);
  usage_.store(u.packed(), std::memory_order_relaxed);           // statistics
  usage_counted_.store(u.counted(), std::memory_order_relaxed);  // the same
}

void worker::even_out(std::int64_t now) noexcept {
  constexpr std::int64_t quarter = even_out_interval_ns / 4;
  // Not in step with the slices, or it would always meet the same fiber waiting.
  next_even_out_ = now + even_out_interval_ns - quarter + static_cast<std::int64_t>(random() % (2 * quarter));
  fold_usage(now);
  const std::size_t n = core.workers.size();
  if (n == 1 || in_reserve() || core.chaos) return;
  const auto& map = core.seats.map();
  looks_for_faster_ = map.is_hybrid;
  const scheduler::seat_range near = map.workers[index].cache;
  std::uint32_t other = scheduler::no_worker;
  const std::uint32_t neighbours = near.end - near.begin - 1;
  if (neighbours != 0 && random() % even_out_far_one_in != 0) {
    const auto at = near.begin + static_cast<std::uint32_t>(random() % neighbours);
    other = map.worker_at[at < seat ? at : at + 1];
  } else {
    const auto any = static_cast<std::uint32_t>(random() % (n - 1));
    other = any < index ? any : any + 1;
  }
  if (other >= n || core.workers[other]->waiting() == 0) return;
  pull_from(*core.workers[other], now);
}

// One fiber from `other`, if it has more to do for its speed than we have; scheduler/balancing.hpp says which and why.
bool worker::pull_from(worker& other, std::int64_t now) noexcept {
  const auto& map = core.seats.map();
  const unsigned capacity = map.workers[index].capacity;
  std::uint64_t here = 0;
  {
    spin_guard hold(queue_lock_);
    here = scheduler::load_of(queue_.total_weight(), capacity);
  }
  if (here == 0 || !other.queue_lock_.try_lock()) return false;  // who has nothing to do steals
  const std::uint64_t there = scheduler::load_of(other.queue_.total_weight(), map.workers[other.index].capacity);
  fiber_block* f = nullptr;
  if (scheduler::is_worth_a_pull(here, there)) {
    scheduler::entity* e = scheduler::pull_candidate(
        other.queue_, there - here, capacity,
        [&](const scheduler::entity& candidate) {
          const auto& c = static_cast<const fiber_block&>(candidate);
          // acquire: pairs with settle(); the context of a fiber that has just left may not be complete.
          return c.pin_count == 0 && !c.on_stack.load(std::memory_order_acquire) && may_run_here(c);
        },
        [&](const scheduler::entity& candidate) {
          const auto& c = static_cast<const fiber_block&>(candidate);
          return usage_of(c).at(now, candidate.sum_exec);
        });
    if (e) {
      f = &block_of(*e);
      other.depart(*f);
      other.queue_.dequeue(*e, scheduler::leaving::migrated, now);
      other.publish_waiting();
    }
  }
  other.queue_lock_.unlock();
  if (!f) return false;
  add_to(f->migrations, 1);
  add_to(migrations_in_, 1);
  spin_guard hold(queue_lock_);
  join(*f, scheduler::joining::migrated, now);
  publish_waiting();
  return true;
}

// The running fiber uses more than this worker's CPU can give, and a sleeping worker has a faster one: asked at a preemption
// point, at most once every few milliseconds. Where it goes is place()'s affair.
bool worker::wants_faster_cpu(fiber_block& f, std::int64_t now) noexcept {
  const auto& map = core.seats.map();
  if (f.pin_count != 0 || f.stay_count != 0 || !map.is_hybrid) return false;
  const std::int64_t service = f.cpu_time.load(std::memory_order_relaxed) + std::max<std::int64_t>(now - stint_began_, 0);  // ours
  const unsigned used = usage_of(f).at(now, service);
  const unsigned capacity = map.workers[index].capacity;
  unsigned fastest = 0;
  for (std::uint32_t w = 0; w < core.workers.size(); ++w) {
    const worker& other = *core.workers[w];
    if (core.idle.is_idle(other.seat) && !other.in_reserve() && (!f.allowed || f.allowed[w])) fastest = std::max<unsigned>(fastest, map.workers[w].capacity);
  }
  return scheduler::is_misfit(used, f.clamp, capacity, fastest);
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
