// SPDX-License-Identifier: BSL-1.0
#include "fiber_team.hpp"

#include <chrono>

namespace lagom::bench {

runtime_options runtime_options_for(const run_options& options) {
  runtime_options out{};
  out.workers = static_cast<unsigned>(options.workers);
  out.slice = std::chrono::microseconds{options.slice_us};
  out.features = features::parse(options.features);
  // Never "automatic": whether a benchmark pins must not depend on the machine it runs on.
  out.pin_mode = options.pin ? pin::cpu : pin::none;
  return out;
}

std::uint64_t fiber_switches(const runtime& rt) {
  std::uint64_t sum = 0;
  for (const auto& worker : rt.stats().workers) {
    sum += worker.switches;
  }
  return sum;
}

}  // namespace lagom::bench
