// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

// The subcommands of lagom-sim: each adds itself to the parser and leaves in `chosen` what to do when it is chosen.
namespace lagom::sim {

inline constexpr int exit_failed = 1;
inline constexpr int exit_usage = 2;

using action = std::function<int()>;
void add_replay(CLI::App& app, action& chosen);
void add_run(CLI::App& app, action& chosen);
void add_scenario(CLI::App& app, action& chosen);

// Standard output for "-", else the file. Throws input_error.
void write_out(const std::string& file, std::string_view text);
// Runs it; wrong input is told on standard error.
int guarded(const action& what);

}  // namespace lagom::sim
