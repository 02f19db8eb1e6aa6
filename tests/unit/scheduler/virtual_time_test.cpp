// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include "driver.hpp"
#include "scheduler/arithmetic.hpp"

namespace lagom::test {

TEST_CASE("virtual time: order is the sign of the distance, also across the wrap") {
  const virtual_time before_wrap{UINT64_MAX - 5};
  const virtual_time after_wrap = before_wrap + virtual_span{10};
  CHECK(after_wrap.ticks == 4);
  CHECK(is_before(before_wrap, after_wrap));
  CHECK_FALSE(is_before(after_wrap, before_wrap));
  CHECK((after_wrap - before_wrap).ticks == 10);
  CHECK(earlier(before_wrap, after_wrap) == before_wrap);
  CHECK(earlier(after_wrap, before_wrap) == before_wrap);
}

TEST_CASE("to_virtual: nice 0 moves 1024 ticks per ns, others in inverse proportion, rounded down") {
  CHECK(to_virtual(1, nice_0_weight).ticks == 1024);
  CHECK(to_virtual(3 * ms, nice_0_weight) == virtual_ns(3 * ms));
  CHECK(to_virtual(100, weight::of_units(88761)).ticks == 1181);      // 1181.34…
  CHECK(to_virtual(ms, weight::of_units(3)).ticks == 349'525'333'333);  // …333.3
  CHECK(to_virtual(0, weight::of_units(3)).ticks == 0);
  // Ten fractional bits of the weight change nothing for whole units, and count for others.
  CHECK(to_virtual(1000, weight{1536}).ticks == (nanos{1000} << 30) / 1536);
}

TEST_CASE("to_virtual: the short and the long way agree where they meet") {
  for (const std::uint32_t units : {2U, 3U, 15U, 1024U, 1277U, 88761U}) {
    const weight w = weight::of_units(units);
    for (const nanos ran : {short_run - 1, short_run, short_run + 1, nanos{3600} * 1'000'000'000}) {
      CHECK(static_cast<unsigned_wide>(to_virtual(ran, w).ticks) == virtual_ticks_wide(ran, w));
    }
  }
}

TEST_CASE("floor_divide: down for negative numbers too, in 64 and in 128 bits") {
  CHECK(floor_divide(7, 2) == 3);
  CHECK(floor_divide(-7, 2) == -4);
  CHECK(floor_divide(-8, 2) == -4);
  const wide huge = static_cast<wide>(INT64_MAX) * 1000 + 1;
  CHECK(floor_divide(huge, 1000) == INT64_MAX);
  CHECK(floor_divide(-huge, 1000) == -INT64_MAX - 1);
}

TEST_CASE("scale: toward zero, held at the horizon") {
  CHECK(scale({7}, 1, 2).ticks == 3);
  CHECK(scale({-7}, 1, 2).ticks == -3);
  CHECK(scale({std::int64_t{1} << 50}, 1 << 20, 1 << 20).ticks == std::int64_t{1} << 50);
  CHECK(scale({std::int64_t{1} << 50}, 1 << 20, 1).ticks == longest_scaled);
  CHECK(scale({-(std::int64_t{1} << 50)}, 1 << 20, 1).ticks == -longest_scaled);
}

TEST_CASE("weight: by nice, of the idle class, by shares") {
  CHECK(weight_of_nice(0).units() == 1024);
  CHECK(weight_of_nice(-20).units() == 88761);
  CHECK(weight_of_nice(19).units() == 15);
  CHECK(idle_weight.units() == 3);
  for (int nice = nice_min + 1; nice <= nice_max; ++nice) {
    const double ratio = double(weight_of_nice(nice - 1).units()) / weight_of_nice(nice).units();
    CHECK(ratio > 1.18);
    CHECK(ratio < 1.29);
    CHECK(nice_nearest(weight_of_nice(nice)) == nice);
  }
  CHECK(nice_nearest(weight_of_nice(nice_min)) == nice_min);
  CHECK(nice_nearest(weight::of_units(1000)) == 0);
  CHECK(nice_nearest(weight::of_units(1)) == nice_max);
  CHECK(weight_of_shares(100) == nice_0_weight);
  CHECK(weight_of_shares(10'000).units() == 102'400);
  CHECK(weight_of_shares(1).scaled == 10'485);
}

}  // namespace lagom::test
