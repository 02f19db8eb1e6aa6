// SPDX-License-Identifier: BSL-1.0
#include "report.hpp"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lagom::bench {

namespace {

constexpr double kb_per_mb = 1024;

nlohmann::ordered_json result_to_json(const summary& results) {
  nlohmann::ordered_json out;
  out["backend"] = name_of(results.which);
  out["runs"] = results.runs;
  out["seconds"] = {{"min", results.seconds.min}, {"median", results.seconds.median}, {"max", results.seconds.max}};
  out["ops"] = std::llround(results.ops);
  out["ns_per_op"] = results.ns_per_op.median;
  out["switches"] = std::llround(results.switches);
  if (results.latency) {
    out["latency_us"] = {{"p50", results.latency->p50_us},
                         {"p99", results.latency->p99_us},
                         {"p999", results.latency->p999_us},
                         {"max", results.latency->max_us}};
  }
  out["max_rss_kb"] = results.max_rss_kb;
  out["cpu_seconds"] = results.cpu_seconds;
  return out;
}

}  // namespace

void print_common(const summary& results, std::string_view op) {
  fmt::print("     {:.1f} ns per {}", results.ns_per_op.median, op);
  if (results.runs > 1) {
    fmt::print(" (median of {} runs, {:.1f} … {:.1f})", results.runs, results.ns_per_op.min, results.ns_per_op.max);
  }
  fmt::print("\n     {:.0f} {} switches ({:.3f} per {})", results.switches,
             results.which == backend::fiber ? "fiber" : "context", results.switches / results.ops, op);
  if (results.which == backend::fiber) {
    fmt::print(", {:.0f} context switches of the workers", results.os_switches);
  }
  fmt::print("\n     {:.3f} s of CPU time ({:.2f} CPUs), {:.1f} MB at most\n", results.cpu_seconds,
             results.cpu_seconds / results.seconds.median, static_cast<double>(results.max_rss_kb) / kb_per_mb);
  if (results.latency) {
    fmt::print("     latency in µs: p50 {:.1f}, p99 {:.1f}, p99.9 {:.1f}, max {:.1f}\n", results.latency->p50_us,
               results.latency->p99_us, results.latency->p999_us, results.latency->max_us);
  }
}

std::optional<double> ratio_of(const std::vector<summary>& all) {
  const summary* fiber = nullptr;
  const summary* thread = nullptr;
  for (const auto& one : all) {
    (one.which == backend::fiber ? fiber : thread) = &one;
  }
  if (fiber == nullptr || thread == nullptr) {
    return std::nullopt;
  }
  return thread->ns_per_op.median / fiber->ns_per_op.median;
}

nlohmann::ordered_json to_json(std::string_view workload, const nlohmann::json& parameters,
                               const std::vector<summary>& all) {
  nlohmann::ordered_json out;
  out["workload"] = workload;
  out["params"] = parameters;
  out["results"] = nlohmann::ordered_json::array();
  for (const auto& one : all) {
    out["results"].push_back(result_to_json(one));
  }
  if (const auto ratio = ratio_of(all)) {
    out["ratio"] = *ratio;
  }
  return out;
}

}  // namespace lagom::bench
