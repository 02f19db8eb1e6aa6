// SPDX-License-Identifier: BSL-1.0
#include "weight.hpp"

#include <cstddef>

namespace lagom::scheduler {

namespace {

// Fixed by long use elsewhere (Linux's sched_prio_to_weight), not a formula: 1024 / 1.25^nice only nearly gives them.
constexpr std::uint32_t units_by_nice[] = {
    88761, 71755, 56483, 46273, 36291,  // -20 …
    29154, 23254, 18705, 14949, 11916,  // -15 …
    9548,  7620,  6100,  4904,  3906,   // -10 …
    3121,  2501,  1991,  1586,  1277,   // -5 …
    1024,  820,   655,   526,   423,    // 0 …
    335,   272,   215,   172,   137,    // 5 …
    110,   87,    70,    56,    45,     // 10 …
    36,    29,    23,    18,    15,     // 15 …
};
static_assert(sizeof units_by_nice / sizeof units_by_nice[0] == nice_max - nice_min + 1);
static_assert(units_by_nice[-nice_min] == nice_0_weight.units());

constexpr int shares_min = 1;
constexpr int shares_max = 10'000;
constexpr int shares_of_nice_0 = 100;

}  // namespace

weight weight_of_nice(int nice) {
  assert(nice >= nice_min);
  assert(nice <= nice_max);
  return weight::of_units(units_by_nice[nice - nice_min]);
}

int nice_nearest(weight w) {
  assert(w.scaled > 0);
  int best = nice_min;
  for (int nice = nice_min + 1; nice <= nice_max; ++nice) {
    // Nearer in ratio than its heavier neighbour: w^2 < heavier * lighter.
    const std::uint64_t heavier = weight_of_nice(nice - 1).scaled;
    const std::uint64_t lighter = weight_of_nice(nice).scaled;
    if (std::uint64_t{w.scaled} * w.scaled < heavier * lighter) {
      best = nice;
    }
  }
  return best;
}

weight weight_of_shares(int shares) {
  assert(shares >= shares_min);
  assert(shares <= shares_max);
  // Keeps the fraction: shares 1 is 10.24 units.
  const auto scaled = std::uint64_t{nice_0_weight.scaled} * static_cast<std::uint64_t>(shares) / shares_of_nice_0;
  return weight{static_cast<std::uint32_t>(scaled)};
}

}  // namespace lagom::scheduler
