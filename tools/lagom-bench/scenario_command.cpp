// SPDX-License-Identifier: BSL-1.0
#include "scenario_command.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <lagom/features.hpp>

#include "limits.hpp"
#include "scenario/record.hpp"
#include "scenario_stage.hpp"

namespace lagom::bench {

namespace {

using json = nlohmann::ordered_json;

constexpr double us = 1e3;
constexpr double ms = 1e6;
constexpr double percent = 100;

std::string three(const json& summary, const char* middle, double unit) {
  if (summary["n"] == 0) {
    return "-";
  }
  return fmt::format("{:.3g}/{:.3g}/{:.3g}", summary["p50"].get<double>() / unit, summary[middle].get<double>() / unit,
                     summary["max"].get<double>() / unit);
}

/// Where it runs is the caller's choice, then the file's, then (one CPU is as good as another) any.
void settle_cpu(scenarios::scenario& what, std::optional<int> wanted) {
  if (wanted && !may_run_on(*wanted)) {
    throw usage_error(fmt::format("--cpu: this process may not run on CPU {}", *wanted));
  }
  if (wanted) {
    return what.move_to_cpu(*wanted);
  }
  for (unsigned cpu = 0; cpu < what.cpus(); ++cpu) {
    if (what.workers() > 1 && !may_run_on(static_cast<int>(cpu))) {
      throw usage_error(fmt::format("{} needs CPU {}, which this process may not run on", what.name, cpu));
    }
  }
  for (int cpu = 0; !may_run_on(what.cpu); ++cpu) {
    if (may_run_on(cpu)) {
      what.move_to_cpu(cpu);
    }
  }
}

void print_text(const json& report, backend which) {
  fmt::print("# {} on {}: {:.1f} s measured, {:.2f} % taken by others\n", report["scenario"].get<std::string>(),
             which == backend::fiber ? "fibers" : "threads", report["measured_ns"].get<double>() / 1e9,
             percent * report["foreign_share"].get<double>());
  fmt::print("{:<12} {:>7} {:>5} {:>8} {:>9} {:>18} {:>18} {:>18} {:>7}\n", "thread", "policy", "nice", "slice us", "share %",
             "burst ms 50/99/max", "gap ms 50/99/max", "wake us 50/99/max", "late %");
  for (const auto& thread : report["threads"]) {
    const auto& wake = thread["wake"];
    fmt::print("{:<12} {:>7} {:>5} {:>8} {:>9.3f} {:>18} {:>18} {:>18} {:>7}\n", thread["name"].get<std::string>(),
               thread["policy"].get<std::string>(), thread["nice"].get<int>(), thread["slice_ns"].get<std::int64_t>() / 1000,
               percent * thread["share_of_scenario"].get<double>(), three(thread["burst"], "p99", ms),
               three(thread["gap"], "p99", ms), three(wake, "p99", us),
               wake["n"] == 0 ? "-" : fmt::format("{:.1f}", percent * wake["over_200us"].get<double>()));
  }
  if (report.contains("lag_spread")) {
    std::int64_t most = 0;
    for (const auto& spread : report["lag_spread"]) {
      most = std::max(most, spread.get<std::int64_t>());
    }
    fmt::print("lag spread at most {:.2f} ms\n", static_cast<double>(most) / ms);
  }
}

}  // namespace

struct scenario_command::choices {
  CLI::App* parser = nullptr;
  std::string file{};
  std::string raw{};
  std::uint64_t cpu = no_cpu;
  double seconds = 0;
  bool json = false;
  run_options common{};
  scenario_options what{};

  static constexpr std::uint64_t no_cpu = 1024;
};

scenario_command::scenario_command(CLI::App& parent) : chosen_(std::make_unique<choices>()) {
  auto& c = *chosen_;
  c.parser = parent.add_subcommand("scenario", "a few fibers or threads that run, sleep, yield by a file; how the scheduler treats them");
  c.parser->group("Scenarios");
  constexpr std::uint64_t slice_us_max = 100'000;
  constexpr std::uint64_t quantum_us_max = 1'000'000;
  c.parser->add_option("FILE", c.file, "scenario file (JSON; docs/fidelity.md)")->required();
  c.parser->add_option("--backend", c.common.backend_name, "fiber, thread, or both, one after the other")
      ->type_name("NAME")
      ->check(CLI::IsMember({"fiber", "thread", "both"}));
  c.parser->add_option("--raw", c.raw, "also write every burst to this file (CSV)")->type_name("CSV");
  add_number(*c.parser, {"--workers", "fiber: workers (default: one, or as many as the file uses CPUs)", 0, 1024}, c.what.workers);
  add_number(*c.parser, {"--cpu", "run on this CPU instead of the file's", 0, choices::no_cpu - 1}, c.cpu);
  add_seconds(*c.parser, "--seconds", c.seconds, "measure so long; the file's duration if that is shorter");
  add_number(*c.parser, {"--slice", "fiber: default slice in microseconds (0: the runtime's)", 0, slice_us_max}, c.what.slice_us);
  add_number(*c.parser, {"--quantum-us", "fiber: a running one offers to give way this often (default 20)", 0, quantum_us_max},
             c.what.quantum_us);
  c.parser->add_option("--features", c.what.features, "fiber: scheduler knobs, for example linux-6.18")->type_name("LIST");
  add_switch(*c.parser, "--json", c.json, "print the whole report as JSON, one line for each backend");
}

scenario_command::~scenario_command() = default;

bool scenario_command::is_chosen() const { return chosen_->parser->parsed(); }

void scenario_command::execute() const {
  const auto& c = *chosen_;
  scenarios::scenario what;
  try {
    what = scenarios::read_file(c.file);
    static_cast<void>(features::parse(c.what.features));
  } catch (const scenarios::input_error& e) {
    throw usage_error(e.what());
  } catch (const std::invalid_argument& e) {
    throw usage_error(fmt::format("--features: {}", e.what()));
  }
  settle_cpu(what, c.cpu == choices::no_cpu ? std::nullopt : std::optional(static_cast<int>(c.cpu)));
  if (c.seconds > 0) {
    what.shorten(static_cast<scenarios::nanos>(c.seconds * 1e9));
  }
  for (const auto which : c.common.backends()) {
    scenarios::run_record run(what, std::max(what.cpus(), static_cast<unsigned>(c.what.workers)));
    play(run, which, c.what);
    const json report = scenarios::report(run);
    if (c.json) {
      fmt::print("{}\n", report.dump());
    } else {
      print_text(report, which);
    }
    if (!c.raw.empty()) {
      scenarios::write_bursts(run, c.raw);
    }
  }
}

}  // namespace lagom::bench
