// SPDX-License-Identifier: BSL-1.0
#include <algorithm>

#include "placement.hpp"

// Mirrors runtime/worker: make_runnable, choose_worker, call_helper, steal.
namespace lagom::sim {

namespace {

constexpr unsigned steal_max = 8;
constexpr nanos hot = 3'000;

class local_placement : public placement {
 public:
  unsigned woken(crew& all, fiber& f, worker* here) override {
    const bool stays = f.is_pinned || f.on_rq;
    if (here == nullptr) {
      return stays && f.home != nobody ? f.home : from_outside(all, f, here);
    }
    if (stays) {
      return f.home;
    }
    if (f.may_run_on(here->index)) {
      return here->index;
    }
    return f.may_run_on(f.home) ? f.home : from_outside(all, f, here);
  }

  unsigned spawned(crew& all, fiber& f, worker* here) override {
    if (here == nullptr && f.spec->home) {
      return *f.spec->home;
    }
    return here != nullptr && f.may_run_on(here->index) ? here->index : from_outside(all, f, here);
  }

  unsigned helper(crew& all, worker& busy) override {
    if (!all.idle.any() || all.searchers != 0) {
      return nobody;
    }
    busy.spent += all.price.probe;
    const unsigned found = all.idle.find((busy.index + 1) % static_cast<unsigned>(all.workers.size()));
    all.idle.claim(found);
    return found;
  }

  victim next_victim(crew& all, worker& thief, unsigned tries) override {
    cursor_ = tries == 0 ? 0 : cursor_;
    while (cursor_ < thief.ring.size()) {
      worker& other = *all.workers[thief.ring[cursor_++]];
      thief.spent += all.price.probe;
      if (other.waiting != 0 || !other.inbox.empty()) {
        return {other.index, steal_max, hot};
      }
    }
    return {};
  }

  [[nodiscard]] nanos last_look(const crew& all) const override {
    return static_cast<nanos>(all.workers.size() - 1) * all.price.probe;
  }

 private:
  // A sleeping worker, the last one first; else where the fewest wait.
  unsigned from_outside(crew& all, const fiber& f, worker* here) {
    if (f.home != nobody && all.idle.is_idle(f.home) && f.may_run_on(f.home)) {
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
      if (all.idle.is_idle(i)) {
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
