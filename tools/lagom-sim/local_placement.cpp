// SPDX-License-Identifier: BSL-1.0
#include <algorithm>

#include "placement.hpp"

// The simplest rule that keeps workers busy; to compare with.
namespace lagom::sim {

namespace {

constexpr unsigned steal_max = 8;
constexpr nanos hot = 3'000;

class local_placement : public placement {
 public:
  destination woken(crew& all, fiber& f, worker* here) override {
    const bool stays = f.is_pinned || f.on_rq;
    if (here == nullptr) {
      return {stays && f.home != nobody ? f.home : from_outside(all, f, here)};
    }
    if (stays) {
      return {f.home};
    }
    if (f.may_run_on(here->index)) {
      return {here->index};
    }
    return {f.may_run_on(f.home) ? f.home : from_outside(all, f, here)};
  }

  destination spawned(crew& all, fiber& f, worker* here) override {
    if (here == nullptr && f.spec->home) {
      return {*f.spec->home};
    }
    return {here != nullptr && f.may_run_on(here->index) ? here->index : from_outside(all, f, here)};
  }

  unsigned helper(crew& all, worker& busy) override {
    if (all.idle.count() == 0 || all.searchers != 0) {
      return nobody;
    }
    busy.spent += all.price.probe;
    for (const unsigned other : busy.ring) {
      if (all.claim(other)) {
        return other;
      }
    }
    return nobody;
  }

  victim next_victim(crew& all, worker& thief, unsigned tries, loot_kind) override {
    cursor_ = tries == 0 ? 0 : cursor_;
    while (cursor_ < thief.ring.size()) {
      worker& other = *all.workers[thief.ring[cursor_++]];
      thief.spent += all.price.probe;
      ++thief.probes;
      if (other.waiting != 0 || !other.inbox.empty()) {
        return {other.index, steal_max, hot};
      }
    }
    return {};
  }

  bool stays_awake(crew& all, worker& w) override {
    w.spent += static_cast<nanos>(all.workers.size() - 1) * all.price.probe;
    return all.overloaded.count() > (w.is_overloaded ? 1U : 0U);
  }

 private:
  // A sleeping worker, the last one first; else where the fewest wait.
  unsigned from_outside(crew& all, const fiber& f, worker* here) {
    if (f.home != nobody && all.is_idle(f.home) && f.may_run_on(f.home)) {
      return f.home;
    }
    const auto n = static_cast<unsigned>(all.workers.size());
    const unsigned start = next_++ % n;
    unsigned best = nobody;
    for (unsigned k = 0; k < n; ++k) {
      const unsigned i = (start + k) % n;
      if (!f.may_run_on(i)) {
        continue;
      }
      if (here != nullptr) {
        here->spent += all.price.probe;
      }
      if (all.is_idle(i)) {
        return i;
      }
      if (best == nobody || all.workers[i]->waiting < all.workers[best]->waiting) {
        best = i;
      }
    }
    return best == nobody ? start : best;
  }

  unsigned next_ = 0;
  std::size_t cursor_ = 0;
};

}  // namespace

std::unique_ptr<placement> make_local_placement() { return std::make_unique<local_placement>(); }

}  // namespace lagom::sim
