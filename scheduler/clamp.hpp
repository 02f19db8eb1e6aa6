// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

namespace lagom::scheduler {

// Utilization and capacity are counted in 1/1024 of the fastest CPU.
inline constexpr unsigned capacity_scale = 1024;

// What somebody's utilization is to be taken for: never below min, never above max. The default says nothing.
struct clamp_range {
  std::uint16_t min = 0;
  std::uint16_t max = capacity_scale;

  [[nodiscard]] constexpr bool is_neutral() const { return min == 0 && max == capacity_scale; }
  friend constexpr bool operator==(clamp_range, clamp_range) = default;
};

}  // namespace lagom::scheduler
