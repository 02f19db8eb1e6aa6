// SPDX-License-Identifier: BSL-1.0
// Numbers at their ends: the virtual line near its wrap, runs of months, extreme weights, crowds.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <random>

#include "driver.hpp"

namespace lagom::test {
namespace {

constexpr std::uint64_t second = 1'000'000'000ULL << virtual_time_bits;
constexpr std::uint64_t starts[] = {0, std::uint64_t{1} << 62, (std::uint64_t{1} << 63) - second, 0 - second,
                                    0 - (std::uint64_t{1} << 20)};

nanos worst_lag(const driver& d) {
  nanos worst = 0;
  d.queue.for_each([&](const entity& e) { worst = std::max(worst, std::abs(d.queue.service_lag(e))); });
  return worst;
}

// A history of random steps; what it decides must not depend on where the line starts.
class random_steps {
 public:
  explicit random_steps(virtual_time start, std::size_t size) : d(features::runtime(), start), all_(size) {
    constexpr std::uint32_t weights[] = {15, 335, 1024, 1024, 3121, 88'761};
    for (entity& e : all_) {
      e.share = weight::of_units(weights[random_() % 6]);
      d.spawn(e);
    }
    d.pick();
  }
  // Returns who runs next, as a number.
  std::size_t step() {
    d.now += static_cast<nanos>(random_() % 400'000);
    const std::uint32_t what = random_() % 8;
    entity& other = all_[random_() % all_.size()];
    if (d.queue.current() == nullptr || what == 0) {
      if (!other.on_rq && d.wake(other)) {
        d.pick();
      }
    } else if (what == 1 && d.queue.queued() > 2) {
      d.park();
    } else if (what == 2) {
      d.yield();
    } else {
      d.pick();
    }
    return d.queue.current() == nullptr ? all_.size() : static_cast<std::size_t>(d.queue.current() - all_.data());
  }
  driver d;

 private:
  std::mt19937 random_{1};
  std::vector<entity> all_;
};

}  // namespace

TEST_CASE("limits: ten million random steps across the ends of the virtual line, the same picks from everywhere") {
  random_steps reference({starts[0]}, 12);
  std::deque<random_steps> others;
  for (const std::uint64_t start : starts) {
    if (start != starts[0]) {
      others.emplace_back(virtual_time{start}, 12);
    }
  }
  for (int i = 0; i < times(2'000'000); ++i) {
    const std::size_t who = reference.step();
    REQUIRE((who < 12) == (reference.d.queue.queued() > 0));
    for (random_steps& other : others) {
      REQUIRE(other.step() == who);
    }
    if (i % 1000 == 0) {
      for (random_steps& other : others) {
        other.d.queue.check_invariants();
        // The longest slice, the longest time nobody looked, and both sides of them.
        REQUIRE(worst_lag(other.d) <= 2 * (500 * us + 400 * us));
      }
    }
  }
}

TEST_CASE("limits: the lightest alone for 300 days, then a normal one arrives") {
  for (const std::uint32_t units : {1U, 2U, 3U}) {
    for (const nanos step : {300 * day, day, 3 * nanos{3600} * 1'000'000'000}) {
      CAPTURE(units);
      CAPTURE(step);
      driver d(features::runtime());
      entity light, normal;
      light.share = weight::of_units(units);
      d.spawn(light);
      d.pick();
      for (nanos ran = 0; ran < 300 * day; ran += step) {
        REQUIRE_FALSE(d.run(step));
        REQUIRE(d.queue.virtual_now() == light.vruntime);
        REQUIRE(is_before(light.vruntime, light.virtual_deadline));
      }
      CHECK(light.sum_exec == 300 * day);
      d.spawn(normal);
      CHECK(d.lag(normal).ticks == 0);
      d.queue.check_invariants();
      // From the first 100 ms on the newcomer gets its share (all but nothing is left) and the light one is not starved
      // for good either.
      d.loop(100 * ms, 10 * us);
      CHECK(normal.sum_exec >= 98 * ms);
      CHECK(normal.sum_exec <= 100 * ms);
      CHECK(worst_lag(d) <= ms);
    }
  }
}

TEST_CASE("limits: a year alone, then a newcomer: half of everything from the first 100 ms, and not more") {
  driver d(features::runtime());
  entity old, fresh;
  d.spawn(old);
  d.pick();
  for (int i = 0; i < 365; ++i) {
    d.run(day);
  }
  d.spawn(fresh);
  d.loop(100 * ms, 10 * us);
  CHECK(fresh.sum_exec >= 49 * ms);
  CHECK(fresh.sum_exec <= 51 * ms);
}

TEST_CASE("limits: spawned right after an overrun of 500 ms while another waits") {
  driver d(features::runtime());
  entity rude, waiter, fresh;
  d.spawn(rude);
  d.pick();
  d.spawn(waiter);
  d.run(500 * ms);
  d.spawn(fresh);
  d.pick();
  CHECK(worst_lag(d) <= 500 * ms);
  const nanos rude_ran = rude.sum_exec;
  d.loop(100 * ms, 10 * us);
  d.queue.check_invariants();
  // The newcomer neither pays for nor profits from the past: the waiter is owed 250 ms and comes first, but a newcomer at
  // V is eligible and gets its requests by deadline.
  CHECK(rude.sum_exec == rude_ran);
  CHECK(waiter.sum_exec + fresh.sum_exec == 100 * ms);
  CHECK(waiter.sum_exec >= 49 * ms);
  CHECK(fresh.sum_exec <= 51 * ms);
}

TEST_CASE("limits: an overrun of months while others wait is cut at the horizon, and order is kept") {
  driver d(features::runtime());
  entity rude, a, b;
  rude.share = weight::of_units(3);
  d.spawn(rude);
  d.pick();
  d.spawn(a);
  d.spawn(b);
  d.run(300 * day);
  d.queue.check_invariants();
  CHECK_FALSE(d.queue.is_eligible(rude));
  CHECK(d.pick() != &rude);
  for (int i = 0; i < 100; ++i) {
    d.run(ms);
    CHECK(d.yield() != &rude);
  }
  d.queue.check_invariants();
}

TEST_CASE("limits: somebody is always eligible, with extreme weights and slices in a crowd of 1000") {
  constexpr std::uint32_t weights[] = {2, 3, 15, 88'761};
  constexpr nanos slices[] = {100 * us, 100 * ms, 0};
  driver d;
  std::deque<entity> all(1000);
  std::mt19937 random(3);
  for (entity& e : all) {
    e.share = weight::of_units(weights[random() % 4]);
    d.queue.set_slice(e, slices[random() % 3], d.now);
    d.spawn(e);
  }
  d.pick();
  for (int i = 0; i < 20'000; ++i) {
    d.run(static_cast<nanos>(1 + random() % (10 * ms)));
    REQUIRE(d.pick() != nullptr);
    if (i % 500 == 0) {
      d.queue.check_invariants();
    }
  }
}

TEST_CASE("limits: a crowd of the heaviest and a joiner of the lightest weight with all the debt it may have") {
  driver d;
  std::deque<entity> all(1000);
  for (entity& e : all) {
    e.share = weight::of_units(88'761);
    d.spawn(e);
  }
  d.pick();
  d.run(ms);
  entity light;
  light.share = weight::of_units(2);
  const virtual_span most = to_virtual(101 * ms, light.share);
  light.vlag = -most;
  const wide total = static_cast<wide>(1000) * 88'761;
  const wide expected = static_cast<wide>(most.ticks) * (total + 2) / total;
  const virtual_time v = d.queue.virtual_now();
  d.wake(light);
  CHECK((light.vruntime - v).ticks == static_cast<std::int64_t>(expected));
  d.queue.check_invariants();
}

TEST_CASE("limits: a joiner two million times heavier than the queue") {
  driver d;
  entity a, heavy;
  a.share = weight{37};  // a light group's part: 0.036 units
  heavy.share = weight{90'891'264};
  d.spawn(a);
  d.pick();
  d.run(ms);
  heavy.vlag = -to_virtual(3 * ms, heavy.share);
  const virtual_span debt = heavy.vlag;
  d.wake(heavy);
  CHECK(d.lag(heavy).ticks - debt.ticks >= -1);
  CHECK(d.lag(heavy).ticks - debt.ticks <= 1);
  d.queue.check_invariants();
}

TEST_CASE("limits: V rounds down for negative offsets") {
  driver d(features::linux_7_1(), {1000});
  entity a, b;
  a.share = b.share = weight::of_units(1);
  d.spawn(a);
  d.spawn(b);
  d.pick();
  d.run(1);  // 2^20 ticks for the current one
  d.queue.check_invariants();
  const virtual_time v = d.queue.virtual_now();
  CHECK((v - virtual_time{1000}).ticks == (std::int64_t{1} << 19));
  entity late;
  late.vlag = {3};
  late.share = weight::of_units(2);
  d.wake(late);  // the mean is now off by a fraction of a tick
  CHECK(d.queue.is_eligible(late));
  entity at_v;
  d.wake(at_v);
  CHECK(d.queue.is_eligible(at_v));
}

TEST_CASE("limits: a million stints of 100 ns at the heaviest weight are charged within 0.05 %") {
  driver d;
  entity heavy;
  heavy.share = weight_of_nice(-20);
  d.spawn(heavy);
  d.pick();
  const virtual_time start = heavy.vruntime;
  for (int i = 0; i < 1'000'000; ++i) {
    d.run(100);
  }
  const double exact = 1e8 * 1024 * 1024 / 88761;
  CHECK(static_cast<double>((heavy.vruntime - start).ticks) == doctest::Approx(exact).epsilon(5e-4));
}

}  // namespace lagom::test
