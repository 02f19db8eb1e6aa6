// SPDX-License-Identifier: BSL-1.0
// From a record of a run to the report that properties.py reads.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "record.hpp"

namespace lagom::scenarios {

namespace {

using json = nlohmann::ordered_json;

constexpr nanos ms = 1'000'000;

nanos scaled_time(const run_record& run, nanos time) {
  return std::max<nanos>(1, std::llround(static_cast<double>(time) * run.scale));
}

double ratio(nanos part, nanos whole) { return static_cast<double>(part) / static_cast<double>(std::max<nanos>(whole, 1)); }

// --- lag ---------------------------------------------------------------------------------------------------------------

double weight_of(const attributes& sched) {
  // A table of its own: a report must not lean on the scheduler that it judges.
  constexpr double weights[] = {88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
                                9548,  7620,  6100,  4904,  3906,  3121,  2501,  1991,  1586,  1277,
                                1024,  820,   655,   526,   423,   335,   272,   215,   172,   137,
                                110,   87,    70,    56,    45,    36,    29,    23,    18,    15};
  constexpr double idle_weight = 3;
  return sched.policy == policy::idle ? idle_weight : weights[sched.nice + 20];
}

/// Fair service minus service got, of every thread in turn, within windows: over a long time small errors of the ends of
/// bursts would add up to a lag that nobody has.
class lag_meter {
 public:
  explicit lag_meter(const run_record& run) : got_(run.threads.size()), least_(got_.size()), most_(got_.size()), spread_(got_.size()) {
    for (const auto& thread : run.threads) {
      weights_.push_back(weight_of(thread.sched));
      total_weight_ += weights_.back();
    }
  }

  void serve(std::size_t who, nanos served) {
    got_[who] += static_cast<double>(served);
    total_ += static_cast<double>(served);
    for (std::size_t i = 0; i < got_.size(); ++i) {
      const double lag = total_ * weights_[i] / total_weight_ - got_[i];
      least_[i] = std::min(least_[i], lag);
      most_[i] = std::max(most_[i], lag);
    }
  }

  void end_window() {
    for (std::size_t i = 0; i < got_.size(); ++i) {
      spread_[i] = std::max(spread_[i], most_[i] - least_[i]);
      got_[i] = least_[i] = most_[i] = 0;
    }
    total_ = 0;
  }

  nanos spread(std::size_t who) const { return std::llround(spread_[who]); }

 private:
  std::vector<double> weights_{};
  std::vector<double> got_, least_, most_, spread_;
  double total_weight_ = 0;
  double total_ = 0;
};

json lag_spreads(const run_record& run) {
  struct entry {
    const burst* what;
    std::size_t who;
  };
  std::vector<entry> all;
  for (std::size_t who = 0; who < run.threads.size(); ++who) {
    for (const auto& one : run.threads[who].log.bursts) {
      all.push_back({&one, who});
    }
  }
  std::sort(all.begin(), all.end(), [](const entry& a, const entry& b) { return a.what->end < b.what->end; });
  constexpr nanos window = 2'000 * ms;
  const nanos length = scaled_time(run, window);
  lag_meter meter(run);
  nanos window_end = run.measured.begin + length;
  for (const auto& one : all) {
    if (one.what->end > window_end) {
      meter.end_window();
      window_end += length;
    }
    meter.serve(one.who, one.what->served);
  }
  meter.end_window();
  json out = json::object();
  for (std::size_t who = 0; who < run.threads.size(); ++who) {
    out[run.what.threads[who].name] = meter.spread(who);
  }
  return out;
}

// --- phases ------------------------------------------------------------------------------------------------------------

json phase_shares(const run_record& run, const thread_record& of) {
  json out = json::array();
  for (std::size_t i = 1; i < of.phase_cpu.size(); ++i) {
    nanos total = 0;
    for (const auto& thread : run.threads) {
      total += thread.phase_cpu[i] - thread.phase_cpu[i - 1];
    }
    out.push_back(ratio(of.phase_cpu[i] - of.phase_cpu[i - 1], total));
  }
  return out;
}

json phase_bursts(const run_record& run, const thread_log& log, nanos late) {
  json out = json::array();
  for (std::size_t i = 1; i < run.what.phases.size(); ++i) {
    const nanos from = run.measured.origin + run.what.phases[i - 1];
    const nanos to = run.measured.origin + run.what.phases[i];
    samples lengths;
    for (const auto& one : log.bursts) {
      if (one.begin >= from && one.begin < to) {
        lengths.add(one.end - one.begin);
      }
    }
    out.push_back(lengths.summary(late));
  }
  return out;
}

// --- returns from long sleeps ------------------------------------------------------------------------------------------

constexpr nanos long_sleep = 1'000 * ms;

/// Service in the first `length` from `from`, as a part of `length`.
double share_after(const thread_log& log, nanos from, nanos length) {
  nanos got = 0;
  for (const auto& one : log.bursts) {
    got += std::max<nanos>(0, std::min(one.end, from + length) - std::max(one.begin, from));
  }
  return ratio(got, length);
}

json returns_of(const run_record& run, const thread_log& log) {
  json out = json::array();
  for (const auto& one : log.bursts) {
    if (!one.is_woken) {
      continue;
    }
    json back;
    back["at_ns"] = one.begin - run.measured.origin;
    back["first_burst"] = one.end - one.begin;
    back["share_20ms"] = share_after(log, one.begin, scaled_time(run, 20 * ms));
    back["share_50ms"] = share_after(log, one.begin, scaled_time(run, 50 * ms));
    back["share_100ms"] = share_after(log, one.begin, scaled_time(run, 100 * ms));
    out.push_back(back);
  }
  return out;
}

// --- the report --------------------------------------------------------------------------------------------------------

struct context {
  run_record& run;
  nanos total_cpu;
  nanos late;
};

json thread_report(const context& in, std::size_t index) {
  run_record& run = in.run;
  thread_record& thread = run.threads[index];
  const nanos cpu = thread.at_end.cpu - thread.at_begin.cpu;
  json out;
  out["name"] = run.what.threads[index].name;
  out["policy"] = name_of(thread.sched.policy);
  out["nice"] = thread.sched.nice;
  out["slice_ns"] = thread.slice_seen;
  out["cpu_ns"] = cpu;
  out["children_cpu_ns"] = thread.log.children_cpu;
  out["share"] = ratio(cpu, run.measured.end - run.measured.begin);
  out["share_of_scenario"] = ratio(cpu, in.total_cpu);
  out["loops"] = thread.log.loops;
  out["runs"] = thread.at_end.runs - thread.at_begin.runs;
  out["run_delay_ns"] = thread.at_end.run_delay - thread.at_begin.run_delay;
  out["voluntary"] = thread.at_end.voluntary - thread.at_begin.voluntary;
  out["involuntary"] = thread.at_end.involuntary - thread.at_begin.involuntary;
  out["foreign_ns"] = thread.log.foreign;
  out["wake"] = thread.log.wake.summary(in.late);
  out["response"] = thread.log.response.summary(in.late);
  out["burst"] = thread.log.burst_length.summary(in.late);
  out["first_burst"] = thread.log.first_burst.summary(in.late);
  out["gap"] = thread.log.gap.summary(in.late);
  out["child_start"] = thread.log.child_start.summary(in.late);
  out["bursts_on_cpu"] = thread.log.bursts_on_cpu;
  out["phase_share"] = phase_shares(run, thread);
  return out;
}

/// What needs the single bursts and only makes sense for some scenarios.
void add_derived(json& out, const context& in) {
  const run_record& run = in.run;
  const bool is_complete =
      std::all_of(run.threads.begin(), run.threads.end(), [](const auto& thread) { return thread.log.is_complete; });
  if (run.what.is_always_busy() && is_complete) {
    out["lag_spread"] = lag_spreads(run);
  }
  if (run.what.phases.size() > 1 && is_complete) {
    for (std::size_t i = 0; i < run.threads.size(); ++i) {
      out["phase_bursts"][run.what.threads[i].name] = phase_bursts(run, run.threads[i].log, in.late);
    }
  }
  for (std::size_t i = 0; i < run.threads.size(); ++i) {
    const auto& shape = run.what.threads[i].pattern;
    if (shape.kind == pattern_kind::run_sleep && shape.sleep >= scaled_time(run, long_sleep)) {
      out["returns"] = returns_of(run, run.threads[i].log);
    }
  }
}

/// The longest time for which others had the CPU in the middle of a burst while the scheduler took it for service: to it
/// that is a thread that could not be stopped.
nanos longest_interruption(const run_record& run) {
  nanos longest = 0;
  for (const auto& thread : run.threads) {
    longest = std::max(longest, thread.log.subtracts_foreign ? 0 : thread.log.longest_foreign);
  }
  return longest;
}

/// The members that are times, wherever they are. Those of lag_spread are too, whatever their names.
bool is_time(const std::string& key) {
  constexpr std::string_view times[] = {"at_ns", "children_cpu_ns", "cpu_ns", "first_burst", "foreign_ns", "longest_interruption_ns",
                                        "max", "mean", "measured_ns", "min", "p50", "p90", "p95", "p99", "run_delay_ns", "slice_ns",
                                        "stolen_ns"};
  return std::find(std::begin(times), std::end(times), key) != std::end(times);
}

/// Multiplies all times: a run at another scale is to be read beside the file that it played.
void multiply_times(json& value, double factor, bool is_all_times = false) {
  if (value.is_array()) {
    for (auto& each : value) {
      multiply_times(each, factor);
    }
    return;
  }
  if (!value.is_object()) {
    return;
  }
  for (auto& member : value.items()) {
    json& inside = member.value();
    if (inside.is_number() && (is_all_times || is_time(member.key()))) {
      inside = std::llround(inside.get<double>() * factor);
    } else {
      multiply_times(inside, factor, member.key() == "lag_spread");
    }
  }
}

}  // namespace

json report(run_record& run) {
  constexpr nanos late = 200'000;
  context in{run, 0, scaled_time(run, late)};
  for (const auto& thread : run.threads) {
    in.total_cpu += thread.at_end.cpu - thread.at_begin.cpu;
  }
  json out;
  out["scenario"] = run.what.name;
  out["scale"] = run.scale;
  out["measured_ns"] = run.measured.end - run.measured.begin;
  out["foreign_share"] = run.foreign_share;
  out["longest_interruption_ns"] = longest_interruption(run);
  out["stolen_ns"] = run.stolen;
  out["machine_busy_share"] = run.cpu_busy_share;
  add_derived(out, in);
  out["threads"] = json::array();
  for (std::size_t i = 0; i < run.threads.size(); ++i) {
    out["threads"].push_back(thread_report(in, i));
  }
  if (run.scale != 1) {
    multiply_times(out, 1 / run.scale);
  }
  return out;
}

void write_bursts(const run_record& run, const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"), std::fclose);
  if (!file) {
    throw std::runtime_error(fmt::format("{} cannot be written", path));
  }
  fmt::print(file.get(), "thread,start_ns,end_ns,served_ns\n");
  for (std::size_t i = 0; i < run.threads.size(); ++i) {
    for (const auto& one : run.threads[i].log.bursts) {
      fmt::print(file.get(), "{},{},{},{}\n", run.what.threads[i].name, one.begin - run.measured.origin,
                 one.end - run.measured.origin, one.served);
    }
  }
  if (std::fflush(file.get()) != 0) {
    throw std::runtime_error(fmt::format("{} cannot be written", path));
  }
}

}  // namespace lagom::scenarios
