// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cassert>
#include <cstdint>

#include "virtual_time.hpp"

namespace lagom::scheduler {

// Divisions of 128-bit numbers cost three to ten times those of 64-bit ones, and nearly everything fits in 64 bits.
[[nodiscard]] constexpr bool fits_64_bits(wide n) { return n == static_cast<std::int64_t>(n); }

// floor(n / d), for negative n too: an entity placed at a V that was rounded up would not be eligible.
[[nodiscard]] constexpr std::int64_t floor_divide(wide n, std::int64_t d) {
  assert(d > 0);
  if (fits_64_bits(n)) [[likely]] {
    const auto narrow = static_cast<std::int64_t>(n);
    return narrow / d - (narrow % d < 0 ? 1 : 0);
  }
  const wide quotient = n / d - (n % d < 0 ? 1 : 0);
  assert(fits_64_bits(quotient));
  return static_cast<std::int64_t>(quotient);
}

// No lag, deadline or window is further away than this, whatever the weights.
inline constexpr std::int64_t longest_scaled = std::int64_t{1} << 61;

// n * times / per, truncated toward zero.
[[nodiscard]] constexpr virtual_span scale(virtual_span n, std::int64_t times, std::int64_t per) {
  assert(per > 0);
  assert(times >= 0);
  if (times == per) {  // among two equals
    return n;
  }
  const wide product = static_cast<wide>(n.ticks) * times;
  if (fits_64_bits(product)) [[likely]] {
    return {static_cast<std::int64_t>(product) / per};
  }
  const wide quotient = product / per;
  return {quotient > longest_scaled    ? longest_scaled
          : quotient < -longest_scaled ? -longest_scaled
                                       : static_cast<std::int64_t>(quotient)};
}

}  // namespace lagom::scheduler
