// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "constants.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

/// What it costs until a sleeping worker runs, from the notification on. Measured: it differs by a factor of ten between bare
/// metal and virtual machines, and with what else the machine does. Any thread.
class wake_cost {
 public:
  std::int64_t now() const noexcept { return cost_.load(std::memory_order_relaxed); }  // a number of its own

  /// A moving average. One sample counts as four times the average at most: the system may take the CPU away in the middle.
  void record(std::int64_t sample) noexcept {
    const std::int64_t before = now();
    const unsigned shift = std::min(1 + samples_.fetch_add(1, std::memory_order_relaxed), wake_cost_shift);  // the first ones count for more
    const std::int64_t after = before + ((std::clamp<std::int64_t>(sample, 0, 4 * before) - before) >> shift);
    // relaxed: of two at once one is lost.
    cost_.store(std::clamp(after, wake_cost_min_ns, wake_cost_max_ns), std::memory_order_relaxed);
  }

 private:
  std::atomic<std::int64_t> cost_{wake_cost_start_ns};
  std::atomic<unsigned> samples_{0};
};

}  // namespace detail
}  // namespace v0
}  // namespace lagom
