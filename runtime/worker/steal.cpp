// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <array>

#include "os/clock.hpp"
#include "runtime_core.hpp"
#include "worker.hpp"

// Work moves from those who have too much to those who have none.
namespace lagom {
inline namespace v0 {
namespace detail {

namespace {
constexpr scheduler::theft_limits limits;
}

// When more waits here than another worker's wake-up costs, one sleeping worker is asked to come and look, the nearest; no
// second one while the first is still looking, it asks the next itself.
void worker::call_helper() noexcept {
  if (!core.idle.any()) return;
  if (core.searchers.load(std::memory_order_relaxed) != 0) return;  // a hint; the monitor looks again
  core.call_helper_for(*this);
}

bool runtime_core::call_helper_for(worker& w) noexcept {
  const scheduler::worker_seat& at = seats.map().workers[w.index];
  unsigned helper = idle_workers::none;
  for (const scheduler::seat_range in : {at.core, at.cluster, at.cache}) {
    if (helper == idle_workers::none) helper = idle.claim_in(in.begin, in.end, at.seat);
  }
  for (const scheduler::farther_cache& other : seats.map().beyond(at.cache_index)) {
    if (helper != idle_workers::none) break;
    helper = idle.claim_in(other.seats.begin, other.seats.end, other.seats.begin);
  }
  if (helper == idle_workers::none) return false;
  call(helper);
  return true;
}

void runtime_core::call(unsigned claimed_seat) noexcept {
  searchers.fetch_add(1, std::memory_order_relaxed);  // a hint: it limits, it guards nothing
  workers[seats.map().worker_at[claimed_seat]]->make_searcher(os::monotonic_ns());
}

unsigned worker::helper_for_bound() noexcept {
  if (!queue_lock_.try_lock()) return idle_workers::none;
  unsigned helper = idle_workers::none;
  static_cast<void>(queue_.steal_candidate([&](const scheduler::entity& candidate) {
    const auto& f = static_cast<const fiber_block&>(candidate);
    if (f.pin_count != 0 || !f.allowed) return false;
    for (const unsigned other : ring) {
      if (other >= core.workers.size() || !f.allowed[other] || core.workers[other]->in_reserve()) continue;
      if (!core.idle.claim(core.workers[other]->seat)) continue;
      helper = core.workers[other]->seat;
      return true;
    }
    return false;
  }));
  queue_lock_.unlock();
  return helper;
}

worker::haul worker::rob(const theft& what, std::span<fiber_block*> loot) noexcept {
  if (!queue_lock_.try_lock()) return {0, true};
  // The inbox too: its owner may be held by a fiber that never looks.
  empty_inbox(what.now);
  const std::size_t waiting = queue_.runnable() - (queue_.current() && queue_.current()->on_rq ? 1 : 0);
  const auto wanted = std::min(static_cast<std::uint32_t>(loot.size()), scheduler::loot_size(waiting, what.distance, limits));
  unsigned taken = 0;
  bool is_any_too_fresh = false;
  while (taken < wanted) {
    scheduler::entity* e = queue_.steal_candidate([&](const scheduler::entity& candidate) {
      const auto& f = static_cast<const fiber_block&>(candidate);
      // acquire: pairs with settle(); the context of a fiber that has just left may not be complete.
      if (f.pin_count != 0 || f.on_stack.load(std::memory_order_acquire) || (f.allowed && !f.allowed[what.thief])) return false;
      // Who is of the idle class, or has never run, has nothing in the cache that counts.
      if (f.kind == scheduler::policy::idle) return what.takes_idle_class;
      if (f.usual_stint == 0) return true;
      const bool is_fresh = what.now - f.state_since.load(std::memory_order_relaxed) < what.guard;  // written before it was queued
      is_any_too_fresh |= is_fresh;
      return !is_fresh;
    }, taken == 0 ? theft_search_max : 32);
    if (!e) break;
    depart(block_of(*e));
    queue_.dequeue(*e, scheduler::leaving::migrated, what.now);
    loot[taken++] = &block_of(*e);
  }
  publish_waiting();  // what came by mail, even if nothing is taken
  queue_lock_.unlock();
  return {taken, is_any_too_fresh};
}

worker::haul worker::rob_one(worker& victim, const theft& what) noexcept {
  std::array<fiber_block*, limits.most_near> loot;
  const haul h = victim.rob(what, loot);
  if (h.taken == 0) return h;
  {
    spin_guard hold(queue_lock_);
    for (fiber_block* f : std::span(loot).first(h.taken)) {
      add_to(f->migrations, 1);
      join(*f, scheduler::joining::migrated, now_);
    }
    publish_waiting();
  }
  steals_.store(steals_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);                      // statistics
  migrations_in_.store(migrations_in_.load(std::memory_order_relaxed) + h.taken, std::memory_order_relaxed);    // statistics
  failed_thefts_ = 0;
  stop_searching();
  if (victim.is_overloaded() && core.workers.size() > 2) victim.call_helper();
  return h;
}

// Chaos mode: what was sent away is not fetched back at once, or nothing would ever move.
bool worker::is_worth_robbing(const worker& victim) const noexcept {
  if (victim.waiting() == 0 && victim.inbox_.seems_empty()) return false;
  return !core.chaos || victim.in_reserve() || victim.is_overloaded() || is_searcher_.load(std::memory_order_relaxed);  // ours, or set before our wake-up
}

// The overloaded ones first, nearest first; then a few neighbours. The idle class is taken only if there is nothing else
// anywhere, and only by who has nothing of his own.
bool worker::steal(loot_kind what) noexcept {
  const std::size_t n = core.workers.size();
  const auto& map = core.seats.map();
  const bool looks_far = far_thefts_.opens(random());
  bool was_far = false;
  saw_unmovable_ = false;
  bool has_met = false, try_again = false;
  const bool takes_any[] = {false, true};
  for (const bool takes_idle_class : std::span(takes_any).first(what == loot_kind::anything ? 2 : 1)) {
    const auto rob_from = [&](std::uint32_t w, std::uint8_t distance) {
      if (w >= n || w == index) return false;  // not made yet
      if (distance > scheduler::distance::same_cache) {
        try_again |= !looks_far;
        if (!looks_far) return false;
        was_far = true;
      }
      has_met = true;
      const haul h = rob_one(*core.workers[w], {index, distance, scheduler::theft_guard(distance, failed_thefts_, limits), takes_idle_class, now_});
      try_again |= h.try_again;
      return h.taken != 0;
    };
    const auto overloaded = [&](std::uint32_t i) { return core.published.word(published_words::kind::overloaded, i); };
    bool found = scheduler::visit_victims(map, index, random(), overloaded, rob_from);
    unsigned probes = 0;
    for (const unsigned other : ring) {
      if (found || probes == probe_max) break;
      if (other >= n) continue;
      ++probes;
      if (core.workers[other]->is_overloaded() || !is_worth_robbing(*core.workers[other])) continue;
      found = rob_from(other, map.distance_between(index, other));
    }
    if (was_far) far_thefts_.record(found);
    if (found) return true;
  }
  ++failed_thefts_;
  saw_unmovable_ = has_met && !try_again;
  return false;
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
