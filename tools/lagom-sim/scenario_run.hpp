// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "observer.hpp"
#include "scenario/record.hpp"
#include "scenario/scenario.hpp"
#include "simulation.hpp"

// The scenario files (tools/scenario) in the simulator.
namespace lagom::sim {

// What to simulate for such a file. A file whose threads all have one CPU gets one worker, others one for each CPU named.
workload workload_of(const scenarios::scenario& what);
std::size_t workers_of(const scenarios::scenario& what);

// Fills a record with what happens. Threads and fibers have the same order.
class scenario_recorder : public observer {
 public:
  explicit scenario_recorder(scenarios::run_record& into);

  void began(const fiber&, const worker&, nanos at, nanos waited) override;
  void stint(const fiber&, const worker&, nanos from, nanos to, departure) override;
  void woke(const fiber&, nanos due, nanos ran) override;
  void responded(const fiber&, nanos due, nanos done) override;
  void child_ended(const fiber& parent, const fiber& child, nanos at) override;
  void mark(nanos at) override;
  // Before the run.
  void look_at(const simulation& s) { of_ = &s; }

 private:
  scenarios::thread_record& record_of(const fiber& f) { return into_.threads[f.id]; }

  [[nodiscard]] nanos cpu_of(std::size_t thread, nanos at) const;

  scenarios::run_record& into_;
  const simulation* of_ = nullptr;
  std::vector<scenarios::counters> so_far_;
};

}  // namespace lagom::sim
