// SPDX-License-Identifier: BSL-1.0
#include "record.hpp"

#include <algorithm>

namespace lagom::scenarios {

span span_from(nanos origin, const scenario& what) {
  return {origin, origin + what.warmup, origin + what.duration};
}

thread_log::thread_log(const span& measured, unsigned cpus, std::size_t bursts_max)
    : bursts_on_cpu(cpus), measured_(measured), bursts_max_(bursts_max) {
  // Growing while the scenario runs would be an interruption of the burst that is measured.
  bursts.reserve(bursts_max);
}

void thread_log::begin_burst(nanos at, unsigned cpu, start how) {
  open_ = {at, at, 0, how == start::woken};
  if (how == start::resumed && measured_.measures(left_at_)) {
    gap.add(std::min(at, measured_.end) - left_at_);
  }
  if (measured_.measures(at) && cpu < bursts_on_cpu.size()) {
    ++bursts_on_cpu[cpu];
  }
}

void thread_log::end_burst(nanos at, nanos foreign_part) {
  left_at_ = at;
  if (!measured_.measures(open_.begin) || at > measured_.end) {
    return;
  }
  open_.end = at;
  open_.served = at - open_.begin - (subtracts_foreign ? foreign_part : 0);
  burst_length.add(at - open_.begin);
  if (open_.is_woken) {
    first_burst.add(at - open_.begin);
  }
  foreign += foreign_part;
  longest_foreign = std::max(longest_foreign, foreign_part);
  if (bursts.size() < bursts_max_) {
    bursts.push_back(open_);
  } else {
    is_complete = false;
  }
}

void thread_log::note_wake(nanos due, nanos ran) {
  if (measured_.measures(due)) {
    wake.add(ran - due);
  }
}

void thread_log::note_response(nanos due, nanos done) {
  if (measured_.measures(due) && done < measured_.end) {
    response.add(done - due);
  }
}

void thread_log::note_child(nanos created, nanos began, nanos done, nanos used) {
  if (measured_.measures(created)) {
    child_start.add(began - created);
  }
  if (measured_.measures(done)) {
    children_cpu += used;
  }
  note_response(created, done);
}

run_record::run_record(const scenario& scenario_to_run, unsigned cpus) : what(scenario_to_run) {
  constexpr std::size_t bursts_max = std::size_t{1} << 18;
  threads.reserve(what.threads.size());
  for (const auto& spec : what.threads) {
    threads.emplace_back(measured, cpus, bursts_max / what.threads.size());
    threads.back().sched = spec.sched;
  }
}

}  // namespace lagom::scenarios
