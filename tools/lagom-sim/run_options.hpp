// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "simulation.hpp"

namespace lagom::sim {

// The options that `run` and `scenario` share, as text where they need judging.
struct engine_options {
  std::string topology{};
  std::size_t workers = 0;
  std::string preset = "runtime";
  std::string features{};
  double slice_us = 0;
  std::string placement = "selecting";
  bool no_checks = false;
  setup how{};
  limits bounds{};
};

void add_engine_options(CLI::App& command, engine_options& given);
// These two throw input_error.
scheduler::features preset_of(const engine_options& given);
scheduler::features changed(const engine_options& given, const scheduler::features& from);  // --features, --slice-us
run_request request_of(const engine_options& given, const scheduler::features& knobs);

}  // namespace lagom::sim
