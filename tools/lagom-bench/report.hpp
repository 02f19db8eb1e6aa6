// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "summary.hpp"

namespace lagom::bench {

/// Text below a workload's own lines: time per operation, spread of the runs, switches, CPU time and memory.
/// `op` is the singular of what is counted, for example "message".
void print_common(const summary& results, std::string_view op);

/// thread / fiber, medians of ns per operation; empty unless both were run.
std::optional<double> ratio_of(const std::vector<summary>& all);

/// {"workload", "params", "results", "ratio"}; keys without a figure are left out.
nlohmann::ordered_json to_json(std::string_view workload, const nlohmann::json& parameters,
                               const std::vector<summary>& all);

}  // namespace lagom::bench
