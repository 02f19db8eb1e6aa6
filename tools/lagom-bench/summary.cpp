// SPDX-License-Identifier: BSL-1.0
#include "summary.hpp"

#include <algorithm>
#include <cassert>

namespace lagom::bench {

namespace {

template <class Get>
std::vector<double> column(const std::vector<measurement>& runs, Get get) {
  std::vector<double> values;
  values.reserve(runs.size());
  for (const auto& run : runs) {
    values.push_back(get(run));
  }
  return values;
}

std::optional<latencies> median_latency(const std::vector<measurement>& runs) {
  const auto median = [&runs](double latencies::*quantile) {
    return spread_of(column(runs, [quantile](const measurement& m) { return (*m.latency).*quantile; })).median;
  };
  if (!std::all_of(runs.begin(), runs.end(), [](const measurement& m) { return m.latency.has_value(); })) {
    return std::nullopt;
  }
  return latencies{median(&latencies::p50_us), median(&latencies::p99_us), median(&latencies::p999_us),
                   median(&latencies::max_us)};
}

}  // namespace

spread spread_of(std::vector<double> values) {
  assert(!values.empty());
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {values.front(), median, values.back()};
}

summary summarize(backend which, const std::vector<measurement>& runs) {
  assert(!runs.empty());
  constexpr double ns_per_second = 1e9;
  summary all{};
  all.which = which;
  all.runs = runs.size();
  all.seconds = spread_of(column(runs, [](const measurement& m) { return m.seconds; }));
  all.samples =
      column(runs, [](const measurement& m) { return m.seconds * ns_per_second / static_cast<double>(m.ops); });
  all.ns_per_op = spread_of(all.samples);
  all.ops = spread_of(column(runs, [](const measurement& m) { return static_cast<double>(m.ops); })).median;
  all.switches = spread_of(column(runs, [](const measurement& m) { return static_cast<double>(m.switches); })).median;
  all.os_switches =
      spread_of(column(runs, [](const measurement& m) { return static_cast<double>(m.os_switches); })).median;
  all.cpu_seconds = spread_of(column(runs, [](const measurement& m) { return m.cpu_seconds; })).median;
  all.latency = median_latency(runs);
  for (const auto& run : runs) {
    all.max_rss_kb = std::max(all.max_rss_kb, run.max_rss_kb);
  }
  if (std::all_of(runs.begin(), runs.end(), [](const measurement& m) { return m.handovers.has_value(); })) {
    all.handovers = spread_of(column(runs, [](const measurement& m) { return *m.handovers; })).median;
  }
  return all;
}

}  // namespace lagom::bench
