// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "samples.hpp"
#include "scenario.hpp"

namespace lagom::scenarios {

/// The measured part of a run. All times of a record are on one clock, whatever its zero.
struct span {
  nanos origin = 0;  ///< time 0 of the scenario
  nanos begin = 0;   ///< origin + warmup
  nanos end = 0;     ///< origin + duration

  bool measures(nanos t) const { return t >= begin && t <= end; }
};
span span_from(nanos origin, const scenario& what);

/// From being switched in to being switched out or blocking.
struct burst {
  nanos begin = 0;
  nanos end = 0;
  nanos served = 0;       ///< without what others took: interrupts, the hypervisor
  bool is_woken = false;  ///< began with a wake-up or a start, not after having been switched out
};

/// What the scheduler itself knows of a thread, read twice: at the begin and at the end of the measured span.
struct counters {
  nanos cpu = 0;
  nanos run_delay = 0;  ///< runnable, not running
  std::int64_t runs = 0;
  std::int64_t voluntary = 0;
  std::int64_t involuntary = 0;
};

/// What one thread did. Written by that thread alone while the scenario runs; read after its end. Every call takes the
/// times and leaves out what is not in the measured span.
class thread_log {
 public:
  thread_log(const span& measured, unsigned cpus, std::size_t bursts_max);

  enum class start { woken, resumed };
  void begin_burst(nanos at, unsigned cpu, start how);
  /// `foreign`: how much of the burst was nobody's of the scenario.
  void end_burst(nanos at, nanos foreign = 0);
  /// A wake-up that was due at `due` ran its first instruction at `ran`.
  void note_wake(nanos due, nanos ran);
  /// What was due at `due` was done at `done`.
  void note_response(nanos due, nanos done);
  void note_child(nanos created, nanos began, nanos done, nanos used);
  void note_loop() { ++loops; }

  samples wake{}, response{}, burst_length{}, first_burst{}, gap{}, child_start{};
  std::vector<burst> bursts{};  ///< the first ones, up to a limit
  bool is_complete = true;      ///< `bursts` has them all
  bool subtracts_foreign = true;  ///< the scheduler does not count what others take as service
  std::vector<std::int64_t> bursts_on_cpu{};
  std::int64_t loops = 0;
  nanos foreign = 0;
  nanos longest_foreign = 0;  ///< in one burst
  nanos children_cpu = 0;

 private:
  const span& measured_;
  std::size_t bursts_max_;
  burst open_{};
  nanos left_at_ = 0;
};

struct thread_record {
  thread_record(const span& measured, unsigned cpus, std::size_t bursts_max) : log(measured, cpus, bursts_max) {}

  thread_log log;
  attributes sched{};    ///< at the end
  nanos slice_seen = 0;  ///< what the scheduler says the slice is, at the begin
  counters at_begin{}, at_end{};
  std::vector<nanos> phase_cpu{};  ///< CPU time at each of the scenario's phase marks
};

/// All there is to report of a run. Fill it in this order: construct, start(), run, report. Not movable: logs point at
/// `measured`.
struct run_record {
  run_record(const scenario& what, unsigned cpus);
  run_record(const run_record&) = delete;
  run_record& operator=(const run_record&) = delete;

  void start(nanos origin) { measured = span_from(origin, what); }

  const scenario what;
  span measured{};
  std::vector<thread_record> threads{};  ///< as in what.threads
  /// The scenario's times are this part of its file's (scaled()). The report is in the file's times, and its limits ("over
  /// 200 us", "the first 100 ms") are as well.
  double scale = 1;
  double foreign_share = 0;  ///< of the scenario's CPU, used by others
  nanos stolen = 0;          ///< by the hypervisor
  std::vector<double> cpu_busy_share{};
};

/// The report, one object; bench/fidelity/properties.py reads it.
nlohmann::ordered_json report(run_record& run);

/// Every recorded burst as CSV: thread,start_ns,end_ns,served_ns. Throws std::runtime_error if the file cannot be
/// written.
void write_bursts(const run_record& run, const std::string& path);

}  // namespace lagom::scenarios
