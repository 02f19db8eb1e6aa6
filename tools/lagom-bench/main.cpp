// SPDX-License-Identifier: BSL-1.0
// lagom-bench WORKLOAD: measures fibers, OS threads, or both in turn. See docs/benchmarks.md.
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <lagom/features.hpp>
#include <lagom/version.hpp>

#include "plot.hpp"
#include "report.hpp"
#include "scenario_command.hpp"
#include "schedule.hpp"
#include "workload.hpp"

namespace lagom::bench {

namespace {

enum exit_code : int { exit_done = 0, exit_run_failed = 1, exit_usage = 2 };

int refuse(std::string_view why) {
  fmt::print(stderr, "lagom-bench: {}\n", why);
  return exit_usage;
}

struct command {
  const workload_entry* entry;
  std::unique_ptr<workload> what;
  run_options options{};
  CLI::App* parser = nullptr;
};

std::string list_of_workloads() {
  std::string out;
  for (const auto& entry : workloads()) {
    out += fmt::format("{} ", entry.name);
  }
  return out + "scenario";
}

/// The first word that is no option must be a workload; said here, as the parser would call it merely unexpected.
std::string judge_workload(int argc, char** argv) {
  if (argc < 2) {
    return fmt::format("which workload? One of: {}; lagom-bench --help tells more", list_of_workloads());
  }
  const std::string_view first = argv[1];
  if (first.empty() || first.front() == '-' || first == "scenario") {
    return {};
  }
  for (const auto& entry : workloads()) {
    if (entry.name == first) {
      return {};
    }
  }
  return fmt::format("there is no workload '{}'; there are: {}", first, list_of_workloads());
}

/// Parses the list only to have a typing error refused before anything runs.
void check_features(const run_options& options) {
  try {
    static_cast<void>(features::parse(options.features));
  } catch (const std::invalid_argument& e) {
    throw usage_error(fmt::format("--features: {}", e.what()));
  }
}

nlohmann::json all_parameters(const command& chosen) {
  const auto& options = chosen.options;
  nlohmann::json out = chosen.what->parameters(options);
  if (options.workers != 0) {
    out["workers"] = options.workers;
  }
  if (options.slice_us != 0) {
    out["slice_us"] = options.slice_us;
  }
  if (options.seconds > 0) {
    out["seconds"] = options.seconds;
  }
  if (!options.features.empty()) {
    out["features"] = options.features;
  }
  out["pin"] = options.pin;
  return out;
}

void print_text(const workload& what, const std::vector<summary>& all) {
  for (const auto& results : all) {
    what.print(results);
    if (&results != &all.back()) {
      fmt::print("\n");
    }
  }
  if (const auto ratio = ratio_of(all)) {
    fmt::print("\n     Ratio thread / fiber: {:.2f}\n", *ratio);
  }
}

int execute(command& chosen) {
  try {
    check_features(chosen.options);
    chosen.what->settle(chosen.options);
    if (!chosen.options.plot_file.empty()) require_writable(chosen.options.plot_file);
  } catch (const usage_error& e) {
    return refuse(fmt::format("{}: {}", chosen.entry->name, e.what()));
  }
  try {
    const auto all = run_all(*chosen.what, chosen.options);
    if (!chosen.options.plot_file.empty()) write_file(chosen.options.plot_file, draw(chosen.entry->name, all));
    if (chosen.options.json) {
      fmt::print("{}\n", to_json(chosen.entry->name, all_parameters(chosen), all).dump(2));
    } else {
      print_text(*chosen.what, all);
    }
  } catch (const std::exception& e) {
    fmt::print(stderr, "lagom-bench: {}: {}\n", chosen.entry->name, e.what());
    return exit_run_failed;
  }
  return std::fflush(stdout) == 0 ? exit_done : exit_run_failed;
}

int execute(const scenario_command& chosen) {
  try {
    chosen.execute();
  } catch (const usage_error& e) {
    return refuse(fmt::format("scenario: {}", e.what()));
  } catch (const std::exception& e) {
    fmt::print(stderr, "lagom-bench: scenario: {}\n", e.what());
    return exit_run_failed;
  }
  return std::fflush(stdout) == 0 ? exit_done : exit_run_failed;
}

int run(int argc, char** argv) {
  if (const auto trouble = judge_workload(argc, argv); !trouble.empty()) {
    return refuse(trouble);
  }
  CLI::App app{"Measures lagom's fibers, OS threads, or both in turn.", "lagom-bench"};
  app.require_subcommand(1);
  app.get_formatter()->label("SUBCOMMAND", "WORKLOAD");
  app.set_version_flag("--version", std::string{version()});
  app.footer(
      "Exit status: 0 done, 1 a run or its self-check failed, 2 wrong usage.\n"
      "lagom-bench WORKLOAD --help shows a workload's options.");
  std::vector<command> commands;
  commands.reserve(workloads().size());
  for (const auto& entry : workloads()) {
    auto& added = commands.emplace_back(command{&entry, entry.make()});
    added.parser = app.add_subcommand(std::string{entry.name}, std::string{entry.purpose});
    added.parser->group("Workloads");
    added.what->add_options(*added.parser);
    add_common_options(*added.parser, added.options);
  }
  const scenario_command scenario(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    const std::string_view first = argv[1];
    return refuse(fmt::format("{}; see lagom-bench {} --help", e.what(), first.front() == '-' ? "WORKLOAD" : first));
  }
  if (scenario.is_chosen()) {
    return execute(scenario);
  }
  for (auto& each : commands) {
    if (each.parser->parsed()) {
      return execute(each);
    }
  }
  return exit_usage;
}

}  // namespace

}  // namespace lagom::bench

int main(int argc, char** argv) {
  try {
    return lagom::bench::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "lagom-bench: {}\n", e.what());
    return lagom::bench::exit_run_failed;
  }
}
