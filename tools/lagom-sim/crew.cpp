// SPDX-License-Identifier: BSL-1.0
#include "crew.hpp"

#include <utility>

namespace lagom::sim {

crew::crew(topology::machine m, topology::worker_plan p, const scheduler::features& knobs, const prices& costs)
    : machine(std::move(m)), plan(std::move(p)), seats(machine, plan), price(costs), idle(seats.map().words()),
      idle_only(seats.map().words()), overloaded(seats.map().words()) {
  const auto n = static_cast<unsigned>(plan.cpu_of_worker.size());
  for (unsigned i = 0; i < n; ++i) {
    auto w = std::make_unique<worker>(i, knobs);
    w->cpu = plan.cpu_of_worker[i];
    w->capacity = machine.cpus[w->cpu].capacity;
    w->stint = costs.wake;
    for (const topology::neighbour& other : topology::ring_of_worker(machine, plan, i)) {
      w->ring.push_back(static_cast<unsigned>(other.index));
    }
    idle.set(seat_of(i), true);
    workers.push_back(std::move(w));
  }
}

}  // namespace lagom::sim
