// SPDX-License-Identifier: BSL-1.0
#include <fmt/format.h>

#include <memory>
#include <string>

#include "commands.hpp"
#include "run_options.hpp"
#include "simulation.hpp"

namespace lagom::sim {

namespace {

struct run_options {
  std::string workload{};
  engine_options engine{};
  std::string json_file{};
  std::string html_file{};
  std::string fault{};
  std::int64_t duration = 0;
  bool lists = false;
};

faults fault_of(const std::string& name) {
  faults wrong;
  if (name == "lost") {
    wrong.lose_wake = 100;
  } else if (name == "idle") {
    wrong.never_steals = true;
  } else if (name == "lag") {
    wrong.ignores_preemption = true;
  } else if (name == "share") {
    wrong.ignores_weights = true;
  } else if (!name.empty()) {
    throw input_error("--break", fmt::format("is \"{}\"; valid: lost, idle, lag, share", name));
  }
  return wrong;
}

int run(const run_options& given) {
  if (given.lists) {
    for (const builtin_workload& b : builtin_workloads()) {
      fmt::print("{:<16}{}\n", b.name, find_workload(std::string(b.name)).about);
    }
    return 0;
  }
  if (given.workload.empty()) {
    throw input_error("run", "which workload? A name (lagom-sim run --list) or a JSON file");
  }
  run_request request = request_of(given.engine, changed(given.engine, preset_of(given.engine)));
  request.what = find_workload(given.workload);
  request.wrong = fault_of(given.fault);
  if (given.duration != 0) {
    request.what.duration = given.duration;
    if (request.what.warmup >= given.duration) {
      throw input_error("--duration", fmt::format("is {}, the warm-up of the workload takes {} already", given.duration,
                                                  request.what.warmup));
    }
  }
  simulation one(std::move(request));
  one.run();
  if (!given.html_file.empty()) {
    write_out(given.html_file, html_report(one));
  }
  if (!given.json_file.empty()) {
    write_out(given.json_file, json_report(one).dump(1) + "\n");
  }
  if (given.json_file != "-" && given.html_file != "-") {
    write_out("-", text_report(one));
  }
  for (const violation& v : one.judged().found()) {
    fmt::print(stderr, "lagom-sim: {} at {} ns: {}\n", v.rule, v.at, v.what);
  }
  return one.is_sound() ? 0 : exit_failed;
}

}  // namespace

void add_run(CLI::App& app, action& chosen) {
  CLI::App* command = app.add_subcommand("run", "play a workload on virtual workers in virtual time");
  const auto given = std::make_shared<run_options>();
  command->add_option("WORKLOAD", given->workload, "a built-in one (see --list) or a JSON file (docs/simulator.md)");
  command->add_flag("--list", given->lists, "print the built-in workloads");
  command->add_option("--duration", given->duration, "instead of the workload's own, in ns")->check(CLI::PositiveNumber);
  add_engine_options(*command, given->engine);
  command->add_option("--json", given->json_file, "write the report as JSON to this file, - for standard output");
  command->add_option("--html", given->html_file, "write the report as a page with plots");
  command->add_option("--break", given->fault,
                      "put in a fault for a checker to find: lost, idle, lag, share (how the checkers are tested)");
  command->footer("Exit status: 0; 1 if a checker found a violation; 2 for wrong usage or input.\n"
                  "The same workload, options and seed give the same output, byte for byte.");
  command->callback([given, &chosen] { chosen = [given] { return run(*given); }; });
}

}  // namespace lagom::sim
