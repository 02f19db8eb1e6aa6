// SPDX-License-Identifier: BSL-1.0
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string>

#include "commands.hpp"
#include "run_options.hpp"
#include "scenario_run.hpp"

namespace lagom::sim {

namespace {

struct scenario_options {
  std::string file{};
  engine_options engine{};
  double scale = 1;
  std::string raw_file{};
  bool has_tick = false;
  bool has_jitter = false;
  bool is_cooperative = false;
};

constexpr double kernel_tick = 4e6;
constexpr double kernel_slice = 1.4e6;
constexpr double kernel_lateness = 50e3;  // of timers there: without it the periods of scenario and tick fall into step

nanos scaled_time(double time, double scale) { return std::max<nanos>(1, std::llround(time * scale)); }

// The kernel's times, for fibers whose times are `scale` of the kernel's.
void scale_knobs(run_request& r, const scenario_options& given) {
  if (!given.has_tick) {
    r.how.tick = scaled_time(kernel_tick, given.scale);
  }
  if (!given.has_jitter) {
    r.how.jitter = scaled_time(kernel_lateness, given.scale);
  }
  scheduler::features& f = r.how.knobs;
  if (given.engine.preset == "runtime") {
    return;
  }
  for (nanos* time : {&f.norm_slice, &f.slice_min, &f.slice_max}) {
    *time = scaled_time(static_cast<double>(*time), given.scale);
  }
  f.credit_granularity = f.debt_granularity = r.how.tick;
  f.base_slice = scaled_time(kernel_slice, given.scale);
}

int play(const scenario_options& given) {
  scenarios::scenario what = scenarios::read_file(given.file);
  if (given.scale != 1) {
    what = scenarios::scaled(std::move(what), given.scale);
  }
  run_request request = request_of(given.engine, preset_of(given.engine));
  request.how.when = given.is_cooperative ? displacement::checkpoints : displacement::interrupts;
  scale_knobs(request, given);
  request.how.knobs = changed(given.engine, request.how.knobs);
  request.what = workload_of(what);
  if (request.workers == 0) {
    request.workers = workers_of(what);
  }
  if (request.topology.empty()) {
    request.topology = fmt::format("synthetic:core:{} pu:1", request.workers);
  }
  scenarios::run_record record(what, static_cast<unsigned>(request.workers));
  record.scale = given.scale;
  scenario_recorder recorder(record);
  simulation one(std::move(request));
  recorder.look_at(one);
  one.watch(recorder);
  one.run();
  write_out("-", scenarios::report(record).dump(1) + "\n");
  if (!given.raw_file.empty()) {
    scenarios::write_bursts(record, given.raw_file);
  }
  for (const violation& v : one.judged().found()) {
    fmt::print(stderr, "lagom-sim: {} at {} ns: {}\n", v.rule, v.at, v.what);
  }
  return one.is_sound() ? 0 : exit_failed;
}

}  // namespace

void add_scenario(CLI::App& app, action& chosen) {
  CLI::App* command = app.add_subcommand("scenario", "play a scenario file of the kernel comparison and print its report");
  const auto given = std::make_shared<scenario_options>();
  given->engine.preset = "linux-7.1";
  command->add_option("FILE", given->file, "a scenario file (tools/scenario)")->required();
  command->add_option("--scale", given->scale,
                      "all times of the file, of a Linux preset and of the tick times this; 0.01 makes fibers of threads")
      ->check(CLI::Range(1e-6, 1e3))
      ->capture_default_str();
  command->add_flag("--cooperative", given->is_cooperative,
                    "only checkpoints, a tick apart, take the worker away; else, as in a kernel, timers and wake-ups do at once");
  command->add_option("--raw", given->raw_file, "write every burst to this CSV file");
  add_engine_options(*command, given->engine);
  command->footer("Without --tick, --slice-us and --jitter: 4 ms, 1.4 ms and 50 us times the scale, as on the kernel that was\n"
                  "measured. Times given on the command line are not scaled. Exit status as of run.");
  command->callback([given, &chosen, command] {
    given->has_tick = command->count("--tick") != 0;
    given->has_jitter = command->count("--jitter") != 0;
    chosen = [given] { return play(*given); };
  });
}

}  // namespace lagom::sim
