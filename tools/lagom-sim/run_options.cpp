// SPDX-License-Identifier: BSL-1.0
#include "run_options.hpp"

#include <fmt/format.h>

#include <cmath>

namespace lagom::sim {

namespace {

constexpr double most_us = static_cast<double>(scheduler::slice_limit) / 1e3;

void add_prices(CLI::App& command, prices& price) {
  const auto add = [&](const char* name, nanos& value, const char* what) {
    command.add_option(name, value, what)->check(CLI::NonNegativeNumber)->capture_default_str()->group("What things cost, ns");
  };
  add("--probe", price.probe, "looking at a word of another worker");
  add("--line", price.remote_line, "writing to a cache line of another worker");
  add("--wake", price.wake, "until a worker that sleeps in the kernel runs");
  add("--spin", price.spin, "how long an idle worker looks for work before it sleeps");
  add("--switch", price.change, "a switch from fiber to fiber");
  add("--call", price.call, "a call of the runtime that does not switch");
}

void add_checks(CLI::App& command, engine_options& given) {
  const auto add = [&](const char* name, nanos& value, const char* what) {
    command.add_option(name, value, what)->check(CLI::NonNegativeNumber)->group("Checkers, bounds in ns; 0: derived");
  };
  add("--idle-bound", given.bounds.idle_while_runnable, "a fiber may wait so long while a worker sleeps that may run it");
  add("--lag-bound", given.bounds.lag, "a fiber may be owed, or owe, so much service");
  add("--starved-after", given.bounds.starved, "a runnable fiber may wait so long");
  command.add_flag("--no-checks", given.no_checks, "check nothing")->group("Checkers, bounds in ns; 0: derived");
}

}  // namespace

void add_engine_options(CLI::App& command, engine_options& given) {
  command.add_option("--topology", given.topology, "synthetic:<hwloc string>, xml:<file>, or nothing: this machine");
  command.add_option("--workers", given.workers, "default: one for each CPU of the topology")->check(CLI::Range(1, 8192));
  command.add_option("--preset", given.preset, "runtime, linux-7.1, linux-6.18, linux-6.12, tip-2026-09")
      ->capture_default_str();
  command.add_option("--features", given.features, "changes to the preset: no_run_to_parity,base_slice=200000");
  command.add_option("--slice-us", given.slice_us, "the default slice")->check(CLI::Range(0.001, most_us));
  command.add_option("--tick", given.how.tick, "a polite fiber comes by a checkpoint so often, ns; 0: exactly when it should give way")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--jitter", given.how.jitter, "timers are late by up to so much, ns, at random")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--seed", given.how.seed, "of all randomness")->capture_default_str();
  command.add_option("--placement", given.placement, "where woken fibers go and who is robbed: selecting, as the runtime; local, without selection and pulls")->capture_default_str();
  add_prices(command, given.how.price);
  add_checks(command, given);
}

scheduler::features preset_of(const engine_options& given) {
  const auto preset = scheduler::features::preset(given.preset);
  if (!preset) {
    throw input_error("--preset", fmt::format("is \"{}\"; valid: {}", given.preset,
                                              fmt::join(scheduler::features::preset_names(), ", ")));
  }
  return *preset;
}

scheduler::features changed(const engine_options& given, const scheduler::features& from) {
  const auto parsed = scheduler::features::parse(given.features, from);
  if (!parsed) {
    const std::string_view values = scheduler::features::values_of(parsed.offending.substr(0, parsed.offending.find('=')));
    throw input_error("--features", fmt::format("\"{}\" is wrong; {}", parsed.offending,
                                                values.empty() ? fmt::format("names: {}", scheduler::features::names())
                                                               : fmt::format("valid: {}", values)));
  }
  scheduler::features result = parsed.value;
  if (given.slice_us > 0) {
    result.base_slice = std::llround(given.slice_us * 1e3);
  }
  return result;
}

run_request request_of(const engine_options& given, const scheduler::features& knobs) {
  run_request r;
  r.topology = given.topology;
  r.workers = given.workers;
  r.how = given.how;
  r.how.knobs = knobs;
  r.bounds = given.bounds;
  r.bounds.check = !given.no_checks;
  r.placement = given.placement;
  return r;
}

}  // namespace lagom::sim
