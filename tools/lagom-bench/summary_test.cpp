// SPDX-License-Identifier: BSL-1.0
#include "summary.hpp"

#include <doctest/doctest.h>

namespace lagom::bench {

TEST_CASE("spread: one value, odd and even numbers, any order") {
  CHECK(spread_of({3}).median == doctest::Approx(3));
  CHECK(spread_of({9, 1, 5}).median == doctest::Approx(5));
  const auto even = spread_of({4, 1, 3, 10});
  CHECK(even.min == doctest::Approx(1));
  CHECK(even.median == doctest::Approx(3.5));
  CHECK(even.max == doctest::Approx(10));
}

TEST_CASE("a summary takes the median of the ratios, and the peak of memory") {
  // Runs of different lengths, as with --seconds: the ratio of medians would be another number.
  measurement a{}, b{}, c{};
  a.seconds = 1, a.ops = 100, a.max_rss_kb = 10;
  b.seconds = 2, b.ops = 100, b.max_rss_kb = 30;
  c.seconds = 3, c.ops = 1000, c.max_rss_kb = 20;
  const auto all = summarize(backend::thread, {a, b, c});
  CHECK(all.runs == 3);
  CHECK(all.ns_per_op.median == doctest::Approx(1e7));
  CHECK(all.ns_per_op.min == doctest::Approx(3e6));
  CHECK(all.max_rss_kb == 30);
  CHECK_FALSE(all.latency.has_value());
}

TEST_CASE("latency is reported only if every run measured it") {
  measurement with{}, without{};
  with.ops = without.ops = 1;
  with.latency = latencies{1, 2, 3, 4};
  CHECK_FALSE(summarize(backend::fiber, {with, without}).latency.has_value());
  const auto all = summarize(backend::fiber, {with, with});
  REQUIRE(all.latency.has_value());
  CHECK(all.latency->p99_us == doctest::Approx(2));
}

}  // namespace lagom::bench
