// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "measurement.hpp"
#include "scenario/record.hpp"

namespace lagom::bench {

struct scenario_options {
  std::uint64_t workers = 0;     ///< fiber: 0 for as many as the scenario has CPUs
  std::uint64_t slice_us = 0;    ///< fiber: the default slice
  std::uint64_t quantum_us = 20; ///< fiber: a running one asks this often whether to give way
  std::string features{};
  int cpu = -1;                  ///< in place of the CPU that the scenario names
};

/// Who ran last on each CPU (or worker). A thread that finds somebody else's id in its slot knows that it was switched
/// out: no help of a kernel or a runtime is needed, so threads and fibers are measured in the same way.
class cpu_slots {
 public:
  explicit cpu_slots(unsigned cpus) : slots_(cpus) {}

  // relaxed: a slot is read and written by whoever runs on that CPU, one after the other.
  std::uint32_t owner(unsigned cpu) const { return slots_[cpu].owner.load(std::memory_order_relaxed); }  // as above
  void claim(unsigned cpu, std::uint32_t id) { slots_[cpu].owner.store(id, std::memory_order_relaxed); }  // as above

 private:
  struct alignas(64) slot {
    std::atomic<std::uint32_t> owner{0};
  };
  std::vector<slot> slots_;
};

/// The threads of one run, fibers or OS threads, seen by the thread that controls the run. All wait until release() and
/// then play their patterns; who is through waits again until end(), so that its counters can be read.
class stage {
 public:
  stage() = default;
  stage(const stage&) = delete;
  stage& operator=(const stage&) = delete;
  virtual ~stage() = default;

  virtual void release() = 0;
  virtual scenarios::counters counters_of(std::size_t thread) = 0;
  virtual scenarios::nanos slice_of(std::size_t thread) = 0;
  virtual void change(std::size_t thread, const scenarios::attributes& sched) = 0;
  virtual void end() = 0;
};

std::unique_ptr<stage> set_fiber_stage(scenarios::run_record& run, const scenario_options& options);
std::unique_ptr<stage> set_thread_stage(scenarios::run_record& run, const scenario_options& options);

/// Runs a scenario and fills in the record.
void play(scenarios::run_record& run, backend which, const scenario_options& options);

/// Of CLOCK_MONOTONIC.
scenarios::nanos monotonic_now();
void sleep_thread_until(scenarios::nanos when);

bool may_run_on(int cpu);

/// Binds the calling thread. Throws std::system_error; any_cpu: all that the process was started with.
void bind_to_cpu(int cpu);

}  // namespace lagom::bench
