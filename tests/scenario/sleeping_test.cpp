// SPDX-License-Identifier: BSL-1.0
// Sleeping earns no fortune, and hides no debt.
#include "scenario.hpp"

using namespace lagom::tests;

namespace {

// S sleeps next to a burner and then burns for 100 ms: how much of that it gets, in ms.
double burst_after_sleep(std::chrono::nanoseconds sleep, std::vector<double>& burner_gaps_ms, double& longest_taken_ms) {
  lagom::runtime rt(scenario_options(1));
  contest all(rt);
  std::atomic<double> got{-1};
  contestant& burner = all.burner();
  all.start({}, [&](contestant& c) {
    lagom::this_fiber::sleep_for(sleep);
    const auto before = lagom::this_fiber::stats().cpu_time;
    const auto begun = clock::now();
    while (clock::now() - begun < 100ms) {
      all.work(20us);
      lagom::this_fiber::checkpoint();
    }
    got = milliseconds(lagom::this_fiber::stats().cpu_time - before);
    all.burn(c);
  });
  becomes_true([&] { return got >= 0; }, limit(30s));
  std::this_thread::sleep_for(100ms);
  all.finish();
  longest_taken_ms = std::max(longest_taken_ms, all.longest_taken_ms());
  burner_gaps_ms.insert(burner_gaps_ms.end(), burner.gaps_ms.begin(), burner.gaps_ms.end());
  return got;
}

}  // namespace

TEST_CASE("16a: a sleeper does not get more than its half when it comes back") {
  std::vector<double> bursts, gaps;
  double longest_taken = 0;
  bursts.push_back(burst_after_sleep(window(2s, 10s), gaps, longest_taken));
  for (int i = 0; i < 10; ++i) bursts.push_back(burst_after_sleep(50ms + i * 30ms, gaps, longest_taken));
  const double slice = 3;
  CHECK(bursts.front() <= (50 + 2 * slice) * (is_short() ? 2 : 1));
  CHECK(percentile(bursts, 75) <= 50 + 2 * slice);
  CHECK(gaps.size() >= 150);
  CHECK(percentile(gaps, 99) <= 2 * (slice + longest_taken) * (is_short() ? 10 : 1));
}

TEST_CASE("16b: a hundred sleepers with short work leave a burner its weight's share") {
  lagom::runtime rt(scenario_options(1));
  contest all(rt);
  contestant& burner = all.burner();
  for (int i = 0; i < 100; ++i) all.worker({}, 2ms, 50ms);
  const auto length = is_long() ? 20s : 3s;  // ten turns of the burner, also in the short form
  all.measure(length);
  all.finish();
  // They want four times what there is, so nothing is left over and its weight counts: 1 of 101, but for a turn at the edge.
  CHECK(burner.share >= 100.0 / 101 - 100 * milliseconds(3ms) / milliseconds(length));
  CHECK(percentile(burner.gaps_ms, 100) <= milliseconds(limit(500ms)));
}

TEST_CASE("16c: whoever overruns its slice and sleeps a moment gets half, no more and no less") {
  lagom::runtime rt(scenario_options(1));
  contest all(rt);
  const contestant& rude = all.start({}, [&](contestant&) {
    while (!all.is_over()) {
      compute(10ms);
      lagom::this_fiber::sleep_for(100us);
    }
  });
  all.burner();
  all.measure(window(3s, 10s));
  CHECK(rude.share >= 45);
  CHECK(rude.share <= 55);
}
