// SPDX-License-Identifier: BSL-1.0
#include <algorithm>

#include "runtime_core.hpp"
#include "worker.hpp"

// Work moves from those who have too much to those who have none.
namespace lagom {
inline namespace v0 {
namespace detail {

// When more waits here than another worker's wake-up costs, one sleeping worker is asked to come and look; no second
// one while the first is still looking, it asks the next itself.
void worker::call_helper() noexcept {
  if (!core.idle.any()) return;
  if (core.searchers.load(std::memory_order_relaxed) != 0) return;  // a hint; the monitor looks again
  const unsigned helper = core.idle.claim_any((index + 1) % static_cast<unsigned>(core.workers.size()));
  if (helper == idle_workers::none) return;
  core.searchers.fetch_add(1, std::memory_order_relaxed);  // a hint: it limits, it guards nothing
  core.workers[helper]->make_searcher();
}

unsigned worker::rob(unsigned thief, std::span<fiber_block*> loot, std::int64_t now) noexcept {
  if (!queue_lock_.try_lock()) return 0;
  // The inbox too: its owner may be held by a fiber that never looks.
  empty_inbox(now);
  const std::size_t waiting = queue_.runnable() - (queue_.current() && queue_.current()->on_rq ? 1 : 0);
  const unsigned wanted = std::min<unsigned>(static_cast<unsigned>(loot.size()), static_cast<unsigned>((waiting + 1) / 2));
  unsigned taken = 0;
  while (taken < wanted) {
    scheduler::entity* e = queue_.steal_candidate([&](const scheduler::entity& candidate) {
      const auto& f = static_cast<const fiber_block&>(candidate);
      // acquire: pairs with settle(); the context of a fiber that has just left may not be complete.
      return f.pin_count == 0 && !f.on_stack.load(std::memory_order_acquire) && (!f.allowed || f.allowed[thief]) &&
             now - f.state_since.load(std::memory_order_relaxed) >= hot_ns;  // written before it was queued
    });
    if (!e) break;
    queue_.dequeue(*e, scheduler::leaving::migrated, now);
    loot[taken++] = &block_of(*e);
  }
  publish_waiting();  // what came by mail, even if nothing is taken
  queue_lock_.unlock();
  return taken;
}

bool worker::steal() noexcept {
  const std::size_t n = core.workers.size();
  fiber_block* loot[steal_max];
  for (const unsigned victim_index : ring) {
    if (victim_index >= n) continue;  // not made yet
    worker& victim = *core.workers[victim_index];
    if (victim.waiting() == 0 && victim.inbox_.seems_empty()) continue;
    // Chaos mode: what was sent away is not fetched back at once, or nothing would ever move.
    if (core.chaos && !victim.in_reserve() && !victim.is_overloaded() && !is_searcher_.load(std::memory_order_relaxed)) continue;  // ours, or set before our wake-up
    const unsigned taken = victim.rob(index, loot, now_);
    if (taken == 0) continue;
    {
      spin_guard hold(queue_lock_);
      for (unsigned i = 0; i < taken; ++i) {
        add_to(loot[i]->migrations, 1);
        join(*loot[i], scheduler::joining::migrated, now_);
      }
      publish_waiting();
    }
    steals_.store(steals_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);                      // statistics
    migrations_in_.store(migrations_in_.load(std::memory_order_relaxed) + taken, std::memory_order_relaxed);    // statistics
    stop_searching();
    if (victim.is_overloaded() && n > 2) victim.ask_for_help();
    return true;
  }
  return false;
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
