// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cassert>
#include <cstdint>

#include "virtual_time.hpp"

namespace lagom::scheduler {

// A share in proportion. Stored with 10 fractional bits, which groups need: a member's part of a light group may be less
// than one unit. Whole units give the same results as without them, since only ratios count.
struct weight {
  static constexpr unsigned fraction_bits = 10;
  static constexpr std::uint32_t max_units = (1U << 22) - 1;

  std::uint32_t scaled = 1024U << fraction_bits;

  // REQUIRES: 1 <= units <= max_units.
  [[nodiscard]] static constexpr weight of_units(std::uint32_t units) {
    assert(units >= 1);
    assert(units <= max_units);
    return weight{units << fraction_bits};
  }
  [[nodiscard]] constexpr std::uint32_t units() const { return scaled >> fraction_bits; }

  friend constexpr bool operator==(weight, weight) = default;
};

inline constexpr int nice_min = -20;
inline constexpr int nice_max = 19;
inline constexpr weight nice_0_weight = weight::of_units(1024);
inline constexpr weight idle_weight = weight::of_units(3);

// Each step of nice is worth a factor of about 1.25. REQUIRES: nice_min <= nice <= nice_max.
[[nodiscard]] weight weight_of_nice(int nice);

// The nice value whose weight is nearest in ratio, for printing.
[[nodiscard]] int nice_nearest(weight w);

// A tenant's share as the user writes it (1 … 10000, 100 is one fiber of nice 0).
[[nodiscard]] weight weight_of_shares(int shares);

// How far an entity of weight w moves on the virtual line while it runs for `ran`, in ticks and rounded down. 128 bits:
// 300 days at the smallest weights do not fit in 64. REQUIRES: ran >= 0.
[[nodiscard]] constexpr unsigned_wide virtual_ticks_wide(nanos ran, weight w) {
  constexpr unsigned shift = virtual_time_bits + 10 + weight::fraction_bits;
  return (static_cast<unsigned_wide>(static_cast<std::uint64_t>(ran)) << shift) / w.scaled;
}

// Above this, `ran` << 30 leaves 64 bits: about 17 s.
inline constexpr nanos short_run = (nanos{1} << 34) - 1;

// The same for anything up to some hours (days at nice 0), without a 128-bit division where it can be avoided.
[[nodiscard]] constexpr virtual_span to_virtual(nanos ran, weight w) {
  assert(ran >= 0);
  if (w == nice_0_weight && ran <= (nanos{1} << 52)) {
    return {ran << virtual_time_bits};
  }
  if (ran <= short_run) [[likely]] {
    return {static_cast<std::int64_t>((static_cast<std::uint64_t>(ran) << 30) / w.scaled)};
  }
  const unsigned_wide ticks = virtual_ticks_wide(ran, w);
  assert(ticks < (unsigned_wide{1} << 63));
  return {static_cast<std::int64_t>(ticks)};
}

}  // namespace lagom::scheduler
