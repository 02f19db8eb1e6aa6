// SPDX-License-Identifier: BSL-1.0
#include "crew.hpp"

#include <bit>
#include <utility>

namespace lagom::sim {

unsigned idle_set::find(unsigned from) const {
  const std::size_t n = words_.size();
  for (std::size_t i = 0; i <= n; ++i) {
    const std::size_t at = (from / 64 + i) % n;
    std::uint64_t set = words_[at];
    if (i == 0) {
      set &= ~std::uint64_t{0} << (from % 64);
    }
    if (set != 0) {
      return static_cast<unsigned>(at * 64) + static_cast<unsigned>(std::countr_zero(set));
    }
  }
  return nobody;
}

crew::crew(topology::machine m, topology::worker_plan p, const scheduler::features& knobs, const prices& costs)
    : machine(std::move(m)), plan(std::move(p)), price(costs), idle(plan.cpu_of_worker.size()) {
  const auto n = static_cast<unsigned>(plan.cpu_of_worker.size());
  for (unsigned i = 0; i < n; ++i) {
    auto w = std::make_unique<worker>(i, knobs);
    w->cpu = plan.cpu_of_worker[i];
    w->capacity = machine.cpus[w->cpu].capacity;
    w->stint = costs.wake;
    for (const topology::neighbour& other : topology::ring_of_worker(machine, plan, i)) {
      w->ring.push_back(static_cast<unsigned>(other.index));
    }
    idle.announce(i);
    workers.push_back(std::move(w));
  }
}

}  // namespace lagom::sim
