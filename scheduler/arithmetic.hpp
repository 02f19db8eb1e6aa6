// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cassert>
#include <cstdint>

#include "virtual_time.hpp"

namespace lagom::scheduler {

// Divisions of 128-bit numbers cost three to ten times those of 64-bit ones, and nearly everything fits in 64 bits.
[[nodiscard]] constexpr bool fits_64_bits(wide n) { return n == static_cast<std::int64_t>(n); }

// floor(n / d), for negative n too: an entity placed at a V that was rounded up would not be eligible.
[[nodiscard]] constexpr std::int64_t floor_divide(wide n, std::uint64_t d) {
  assert(d > 0);
  assert(d < (std::uint64_t{1} << 63));
  const auto divisor = static_cast<std::int64_t>(d);
  if (fits_64_bits(n)) [[likely]] {
    const auto narrow = static_cast<std::int64_t>(n);
    return narrow / divisor - (narrow % divisor < 0 ? 1 : 0);
  }
  const wide quotient = n / divisor - (n % divisor < 0 ? 1 : 0);
  assert(fits_64_bits(quotient));
  return static_cast<std::int64_t>(quotient);
}

// n * times / per, truncated toward zero and held within `bound` on both sides.
[[nodiscard]] constexpr virtual_span scale(virtual_span n, std::uint64_t times, std::uint64_t per,
                                           std::int64_t bound = std::int64_t{1} << 61) {
  assert(per > 0);
  const wide product = static_cast<wide>(n.ticks) * static_cast<wide>(times);
  if (fits_64_bits(product) && per < (std::uint64_t{1} << 63)) [[likely]] {
    const std::int64_t quotient = static_cast<std::int64_t>(product) / static_cast<std::int64_t>(per);
    return {quotient > bound ? bound : quotient < -bound ? -bound : quotient};
  }
  const wide quotient = product / static_cast<wide>(per);
  return {quotient > bound ? bound : quotient < -bound ? -bound : static_cast<std::int64_t>(quotient)};
}

}  // namespace lagom::scheduler
