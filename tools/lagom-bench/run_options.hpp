// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "measurement.hpp"

namespace CLI {
class App;
}

namespace lagom::bench {

/// The options every workload understands. Zero means "the default" throughout.
struct run_options {
  std::string backend_name = "fiber";
  std::uint64_t workers = 0;  ///< fiber: the runtime's workers; thread: CPUs the process is confined to
  std::uint64_t fibers = 0;   ///< fibers or threads alive at once, where a workload leaves the choice
  double seconds = 0;         ///< length of a run, or (fixed amounts of work) of all runs of a backend
  std::uint64_t repeat = 0;
  std::uint64_t slice_us = 0;
  std::string features{};
  double timeout = 0;  ///< seconds a single run may take before it counts as hung
  std::string plot_file{};
  bool json = false;
  bool pin = false;

  std::vector<backend> backends() const;
  /// 1 for one backend; 5 for both, as a ratio of single runs is worth little.
  std::uint64_t repetitions() const;
  bool includes(backend which) const;
};

/// Declares the common options on a workload's command.
void add_common_options(CLI::App& command, run_options& options);

/// Declares `--name N` for a whole number between `least` and `most`, with an error text that names both.
/// `names` is CLI11's list, for example "-g,--group".
struct whole_number {
  std::string_view names;
  std::string_view meaning;
  std::uint64_t least = 0;
  std::uint64_t most = 0;
};
void add_number(CLI::App& command, const whole_number& option, std::uint64_t& value);

/// Declares `--name S` for a span of time above 0, in seconds.
void add_seconds(CLI::App& command, const std::string& names, double& value, const std::string& meaning);

/// Declares a switch; with `conflicts_with`, the names of an option declared before, they may not be given together.
/// (CLI11 is expensive to compile: only run_options.cpp and main.cpp see it.)
void add_switch(CLI::App& command, std::string_view names, bool& value, std::string_view meaning,
                std::string_view conflicts_with = {});

}  // namespace lagom::bench
