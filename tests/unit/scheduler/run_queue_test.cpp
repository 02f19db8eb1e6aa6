// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <vector>

#include "driver.hpp"

namespace lagom::test {

TEST_CASE("run queue: empty") {
  driver d(features::runtime(), {77});
  CHECK(d.pick() == nullptr);
  CHECK_FALSE(d.run(ms));
  CHECK(d.queue.queued() == 0);
  CHECK(d.queue.virtual_now() == virtual_time{77});
  d.queue.check_invariants();
}

TEST_CASE("run queue: with equals everybody runs once before anybody runs twice") {
  for (const std::size_t size : {2U, 3U, 16U, 17U, 100U, 1000U}) {
    CAPTURE(size);
    driver d(features::runtime());
    std::deque<entity> all(size);
    for (entity& e : all) {
      d.spawn(e);
    }
    d.pick();
    for (int round = 0; round < 5; ++round) {
      for (std::size_t i = 0; i < size; ++i) {
        d.run(150);
        d.yield();
      }
      const auto [least, most] = std::minmax_element(all.begin(), all.end(), [](const entity& a, const entity& b) { return a.sum_exec < b.sum_exec; });
      CHECK(least->sum_exec == (round + 1) * 150);
      CHECK(most->sum_exec == (round + 1) * 150);
    }
  }
}

TEST_CASE("yield: 10 million in turns: nobody is ever further than a slice from V, and V is near") {
  driver d(features::runtime());
  entity a, b;
  d.spawn(a);
  d.spawn(b);
  d.pick();
  const virtual_span slice = to_virtual(features::runtime().base_slice, nice_0_weight);
  for (int i = 0; i < times(10'000'000); ++i) {
    d.now += 100;
    d.yield();
    if (i % 1000 == 0) {
      REQUIRE(d.lag(a) <= slice);
      REQUIRE(d.lag(a) >= -slice);
      REQUIRE(d.lag(b) <= slice);
      REQUIRE(d.lag(b) >= -slice);
      d.queue.check_invariants();
    }
  }
  CHECK(a.sum_exec == b.sum_exec);
}

TEST_CASE("yield: of one that is not eligible changes nothing, 10,000 times") {
  driver d;
  entity a, b;
  d.spawn(a);
  d.pick();
  d.run(10 * ms);  // far ahead of whoever joins behind it
  b.vlag = virtual_ns(3 * ms);
  d.wake(b);
  REQUIRE_FALSE(d.queue.is_eligible(a));
  const virtual_time v = a.vruntime, deadline = a.virtual_deadline;
  for (int i = 0; i < 10'000; ++i) {
    d.queue.yield(d.now);
  }
  CHECK(a.vruntime == v);
  CHECK(a.virtual_deadline == deadline);
}

TEST_CASE("yield_to: names who goes first, and refuses who does not wait here") {
  driver d(features::runtime());
  std::deque<entity> all(5);
  entity elsewhere;
  for (entity& e : all) {
    d.spawn(e);
  }
  d.pick();
  CHECK_FALSE(d.queue.yield_to(elsewhere, d.now));
  REQUIRE(d.queue.yield_to(all[4], d.now));
  CHECK(d.pick() == &all[4]);
  CHECK(d.yield() == &all[1]);
  d.queue.check_invariants();
  // The named one leaves before the pick.
  REQUIRE(d.queue.yield_to(all[3], d.now));
  d.detach(all[3]);
  CHECK(d.pick() == &all[2]);
}

TEST_CASE("attributes: a change of weight moves nobody else and keeps real distances") {
  for (const bool of_current : {true, false}) {
    for (const nanos ran : {100 * us, 5 * ms}) {  // eligible, and not
      CAPTURE(of_current);
      CAPTURE(ran);
      driver d;
      entity a, b, c;
      d.spawn(a);
      d.pick();
      d.spawn(b);
      d.spawn(c);
      d.run(ran);
      entity& changed = of_current ? a : b;
      const virtual_time v = d.queue.virtual_now();
      const nanos lag = d.queue.service_lag(changed);
      d.queue.reweight(changed, weight::of_units(335), d.now);
      const std::int64_t moved = (d.queue.virtual_now() - v).ticks;
      CHECK(moved <= 1);
      CHECK(moved >= -1);
      CHECK(std::abs(d.queue.service_lag(changed) - std::max(lag, nanos{-3'800'000})) <= 1);
      d.queue.check_invariants();
    }
  }
}

TEST_CASE("attributes: nice 0 and 1 a thousand times without running changes nothing but roundings") {
  driver d;
  entity a, b;
  d.spawn(a);
  d.pick();
  d.spawn(b);
  d.run(500 * us);
  const virtual_time v = b.vruntime, deadline = b.virtual_deadline;
  for (int i = 0; i < 1000; ++i) {
    d.queue.reweight(b, weight_of_nice(1), d.now);
    d.queue.reweight(b, weight_of_nice(0), d.now);
  }
  CHECK(std::abs((b.vruntime - v).ticks) < 4096);  // 4 ns
  CHECK(std::abs((b.virtual_deadline - deadline).ticks) < 4096);
}

TEST_CASE("attributes: 2000 cycles between extreme weights do not make V drift") {
  for (const std::uint32_t light : {2U, 15U}) {
    CAPTURE(light);
    driver d;
    entity a, b;
    d.spawn(a);
    d.pick();
    d.spawn(b);
    d.run(ms);
    const virtual_time v = d.queue.virtual_now();
    for (int i = 0; i < 2000; ++i) {
      d.queue.reweight(b, weight::of_units(88'761), d.now);
      d.queue.reweight(b, weight::of_units(light), d.now);
    }
    d.queue.reweight(b, nice_0_weight, d.now);
    CHECK(std::abs((d.queue.virtual_now() - v).ticks) < virtual_ns(us).ticks);
    d.queue.check_invariants();
  }
}

TEST_CASE("attributes: slices are clamped, 0 is the default mode, equal to the default is still custom") {
  driver d;
  entity a;
  d.queue.set_slice(a, 50 * us, d.now);
  CHECK(a.slice == 100 * us);
  d.queue.set_slice(a, 1000 * ms, d.now);
  CHECK(a.slice == 100 * ms);
  d.queue.set_slice(a, 2'800 * us, d.now);
  CHECK(a.has_custom_slice);
  d.queue.set_default_slice(5 * ms);
  d.spawn(a);
  CHECK(a.slice == 2'800 * us);
  d.queue.set_slice(a, 0, d.now);
  CHECK_FALSE(a.has_custom_slice);
  CHECK(a.slice == 5 * ms);
}

TEST_CASE("steal: the waiting one with the latest virtual deadline that may be taken") {
  driver d;
  std::deque<entity> all(40);
  for (std::size_t i = 0; i < all.size(); ++i) {
    d.queue.set_slice(all[i], i % 2 == 0 ? ms : static_cast<nanos>(1 + i) * ms, d.now);
    d.spawn(all[i]);
  }
  d.pick();
  const auto anybody = [](const entity&) { return true; };
  CHECK(d.queue.steal_candidate(anybody) == &all[39]);
  CHECK(d.queue.steal_candidate([&](const entity& e) { return &e != &all[39]; }) == &all[37]);
  CHECK(d.queue.steal_candidate([&](const entity& e) { return &e == &all[1]; }, 3) == nullptr);  // looked at three only
  CHECK(d.queue.steal_candidate([](const entity&) { return false; }) == nullptr);
  // Everybody can be taken, one after the other, but the current one.
  std::size_t taken = 0;
  while (entity* e = d.queue.steal_candidate(anybody)) {
    d.detach(*e);
    d.queue.check_invariants();
    ++taken;
  }
  CHECK(taken == all.size() - 1);
  CHECK(d.queue.queued() == 1);
}

TEST_CASE("steal: no delayed one") {
  driver d;
  entity a, b, c;
  d.spawn(a);
  d.pick();
  d.spawn(b);
  d.run(2 * ms);
  REQUIRE(d.park() == &b);
  REQUIRE(a.delayed);
  const auto anybody = [](const entity&) { return true; };
  CHECK(d.queue.steal_candidate(anybody) == nullptr);
  d.spawn(c);
  CHECK(d.queue.steal_candidate(anybody) == &c);
}

TEST_CASE("run queue: a lone sleeper in debt leaves at the next pick, and the queue is empty then") {
  driver d;
  entity a, b;
  d.spawn(a);
  d.pick();
  d.spawn(b);
  d.run(2 * ms);
  REQUIRE(d.park() == &b);
  CHECK(d.queue.queued() == 2);
  CHECK(d.exit() == nullptr);
  CHECK(d.queue.queued() == 0);
  CHECK_FALSE(a.on_rq);
  CHECK_FALSE(a.delayed);
  d.queue.check_invariants();
}

TEST_CASE("run queue: time_left is when charge will ask") {
  driver d(features::runtime());
  entity a, b;
  a.share = weight::of_units(1277);
  d.spawn(a);
  d.pick();
  d.spawn(b);
  const nanos left = d.queue.time_left();
  CHECK_FALSE(d.run(left - 1));
  CHECK(d.queue.time_left() == 1);
  CHECK(d.run(1));
}

TEST_CASE("run queue: a clock that goes back charges nothing") {
  driver d(features::runtime());
  entity a;
  d.now = 1'000'000;
  d.spawn(a);
  d.pick();
  d.run(1000);
  const nanos ran = a.sum_exec;
  d.queue.charge(d.now - 500);
  CHECK(a.sum_exec == ran);
  d.queue.charge(d.now + 500);
  CHECK(a.sum_exec == ran + 500);
}

}  // namespace lagom::test
