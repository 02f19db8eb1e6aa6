// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <utility>

#include "engine.hpp"
#include "scheduler/capacity_fit.hpp"

// Even shares across workers, and who needs a faster CPU. Mirrors runtime/worker/evening.cpp.
namespace lagom::sim {

using scheduler::joining;
using scheduler::leaving;

// worker::even_out
void engine::even_out(worker& w) {
  // Not in step with the slices, or it would always meet the same fiber waiting.
  const nanos quarter = where_.pull_interval() / 4;
  w.next_even_out = now_ + where_.pull_interval() - quarter + random_.between(0, 2 * quarter - 1);
  w.looks_for_faster = all_.map().is_hybrid;
  const unsigned other = where_.pull_partner(all_, w, random_);
  if (other == nobody || all_.workers[other]->waiting == 0 || wrong_.never_steals) {
    return;
  }
  pull_from(*all_.workers[other], w);
}

// worker::pull_from
void engine::pull_from(worker& other, worker& w) {
  w.spent += all_.price.probe;
  const std::uint64_t here = scheduler::load_of(w.queue.total_weight(), w.capacity);
  const std::uint64_t there = scheduler::load_of(other.queue.total_weight(), other.capacity);
  if (here == 0 || !scheduler::is_worth_a_pull(here, there)) {
    return;
  }
  other.queue.charge(now_);
  scheduler::entity* e = scheduler::pull_candidate(
      other.queue, there - here, w.capacity,
      [&](const scheduler::entity& candidate) {
        const auto& f = static_cast<const fiber&>(candidate);
        return !f.is_pinned && f.may_run_on(w.index);
      },
      [&](const scheduler::entity& candidate) {
        return static_cast<const fiber&>(candidate).usage.at(now_, candidate.sum_exec);
      });
  if (e == nullptr) {
    return;
  }
  auto& f = *static_cast<fiber*>(e);
  depart(other, f);
  other.queue.dequeue(f, leaving::migrated, now_);
  publish(other);
  if (other.running != nullptr) {
    plan(other);
  }
  w.spent += all_.price.remote_line;
  tell([&](observer& o) { o.moved(f, other.index, w.index, journey::pull); });
  f.recent = f.home;
  f.home = w.index;
  join(w, f, joining::migrated);
  publish(w);
}

// worker::wants_faster_cpu
bool engine::wants_faster_cpu(const worker& w, const fiber& f) const {
  if (f.is_pinned || !all_.map().is_hybrid) {
    return false;
  }
  const unsigned used = f.usage.at(now_, f.sum_exec);
  unsigned fastest = 0;
  for (const auto& other : all_.workers) {
    if (all_.is_idle(other->index) && f.may_run_on(other->index)) {
      fastest = std::max(fastest, other->capacity);
    }
  }
  return scheduler::is_misfit(used, f.clamp, w.capacity, fastest);
}

// The running fiber goes elsewhere.
void engine::send_away(worker& w, fiber& f, joining why) {
  depart(w, f);
  w.queue.dequeue(f, leaving::migrated, now_);
  scheduler::entity* chosen = w.queue.pick(now_);
  publish(w);
  switch_to(w, f, chosen, departure::displaced);
  route(f, why, why == joining::woken ? &w : nullptr);
}

}  // namespace lagom::sim
