// SPDX-License-Identifier: BSL-1.0
// Mutexes: neither starvation of whoever comes seldom nor a convoy of many who come often.
#include <mutex>

#include "scenario.hpp"

using namespace lagom::tests;

TEST_CASE("21a: one that holds the lock nearly always does not starve one that wants it now and then") {
  for (const unsigned workers : {1u, 2u}) {
    INFO("workers: ", workers);
    lagom::runtime rt(scenario_options(workers));
    contest all(rt);
    lagom::mutex m;
    all.start({}, [&](contestant&) {
      while (!all.is_over()) {
        const std::lock_guard hold(m);
        lagom::this_fiber::sleep_for(100us);
      }
    });
    const auto begun = clock::now();
    rt.run([&] {
      for (int i = 0; i < 100; ++i) {
        lagom::this_fiber::sleep_for(100us);
        const std::lock_guard hold(m);
      }
    });
    CHECK(clock::now() - begun < limit(1s));
  }
}

namespace {

// Rounds per second of n fibers: 100 ns inside, 1 us outside.
double lock_rate(int n, std::chrono::nanoseconds d) {
  lagom::runtime rt(scenario_options(2));
  lagom::mutex m;
  contest all(rt);
  std::atomic<long> total{0};
  long guarded = 0;
  for (int i = 0; i < n; ++i) {
    all.start({}, [&](contestant&) {
      long mine = 0;
      while (!all.is_over()) {
        {
          const std::lock_guard hold(m);
          ++guarded;
          compute(100ns);
        }
        compute(1us);
        ++mine;
        lagom::this_fiber::checkpoint();
      }
      total += mine;
    });
  }
  const auto begun = clock::now();
  std::this_thread::sleep_for(d);
  all.finish();
  const double seconds = std::chrono::duration<double>(clock::now() - begun).count();
  CHECK(total == guarded);
  return static_cast<double>(total) / seconds;
}

}  // namespace

TEST_CASE("21b: many who want a lock are not much slower than few") {
  const auto d = window(1s, 5s) / 2;
  // The middle of three: the two rates are taken at different times on a machine that others use too.
  std::vector<double> ratios;
  for (int turn = 0; turn < 3; ++turn) {
    const double few = lock_rate(8, d);
    ratios.push_back(lock_rate(256, d) / few);
  }
  CHECK(percentile(ratios, 50) >= 0.4);
  for (const int n : {1, 2, 64}) CHECK(lock_rate(n, d / 4) > 0);
}
