// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "measurement.hpp"

namespace lagom::bench {

struct spread {
  double min = 0;
  double median = 0;
  double max = 0;
};

/// Of at least one value; the median of an even number is the mean of the middle two.
spread spread_of(std::vector<double> values);

/// All runs of one backend, put together. Figures are medians of the runs but for the peak of memory.
struct summary {
  backend which = backend::fiber;
  std::uint64_t runs = 0;
  spread seconds{};
  spread ns_per_op{};
  double ops = 0;
  double switches = 0;
  double os_switches = 0;
  double cpu_seconds = 0;
  std::uint64_t max_rss_kb = 0;
  std::optional<latencies> latency{};
  std::optional<double> handovers{};
  std::vector<double> samples{};  ///< ns per operation of each run, in their order
};

summary summarize(backend which, const std::vector<measurement>& runs);

}  // namespace lagom::bench
