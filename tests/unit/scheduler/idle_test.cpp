// SPDX-License-Identifier: BSL-1.0
// The idle class: who waits for it, and for how long.
#include <doctest/doctest.h>

#include <algorithm>

#include "driver.hpp"

namespace lagom::test {

namespace {

constexpr nanos stint = 50 * us;

// Linux 7.1 with the stint and nothing else changed: what differs is the stint's doing.
features with_stint() {
  features f = features::linux_7_1();
  f.idle_stint = stint;
  return f;
}

struct idle_entity : entity {
  idle_entity() {
    kind = policy::idle;
    share = idle_weight;
  }
};

// Runs until `e` has the worker, at most `limit`; false if it never had.
bool run_until(driver& d, const entity& e, nanos limit) {
  constexpr nanos step = 10 * us;
  for (nanos left = limit; left > 0 && d.queue.current() != &e; left -= step) {
    if (d.run(step)) d.pick();
  }
  return d.queue.current() == &e;
}

constexpr nanos look = 5 * us;

// How long the current entity keeps the worker, at least: it is asked every `look`, and each of its steps is rounded down.
nanos keeps_for(driver& d) {
  const entity* const current = d.queue.current();
  const nanos from = d.now;
  while (d.queue.current() == current) {
    if (d.run(look)) d.pick();
    if (d.now - from > 100 * ms) break;
  }
  return d.now - from - look;
}

}  // namespace

TEST_CASE("idle: a normal one that is already queued waits one short stint") {
  for (const int normals : {1, 2, 5}) {
    CAPTURE(normals);
    driver d(with_stint());
    idle_entity idle;
    entity normal[5];
    d.spawn(idle);
    for (int i = 0; i < normals; ++i) d.spawn(normal[i]);
    d.pick();
    for (int turn = 0; turn < times(50); ++turn) {
      REQUIRE(run_until(d, idle, 10'000 * ms));
      CHECK(keeps_for(d) <= stint);
    }
  }
}

TEST_CASE("idle: without the stint a normal one waits a whole slice") {
  driver d(features::linux_7_1());
  idle_entity idle;
  entity normal;
  d.spawn(idle);
  d.spawn(normal);
  d.pick();
  for (int turn = 0; turn < 2; ++turn) {  // the first request of a newcomer is half a slice
    run_until(d, normal, 10'000 * ms);
    REQUIRE(run_until(d, idle, 10'000 * ms));
    CHECK(keeps_for(d) > ms);
  }
}

TEST_CASE("idle: the share is 3 in 1027 beside one normal entity, with the stint and without") {
  for (const nanos knob : {nanos{0}, stint}) {
    CAPTURE(knob);
    features f = features::linux_7_1();
    f.idle_stint = knob;
    driver d(f);
    idle_entity idle;
    entity normal;
    d.spawn(idle);
    d.spawn(normal);
    d.pick();
    const nanos total = times(60'000) * ms;
    d.loop(total, 10 * us);
    const double share = static_cast<double>(idle.sum_exec) / static_cast<double>(total);
    CHECK(share == doctest::Approx(3.0 / 1027).epsilon(0.2));
    CHECK(idle.sum_exec + normal.sum_exec == total);
  }
}

TEST_CASE("idle: among themselves they have whole slices") {
  driver d(with_stint());
  idle_entity a, b;
  d.spawn(a);
  d.spawn(b);
  d.pick();
  keeps_for(d);  // the first request of a newcomer is half a slice
  keeps_for(d);
  CHECK(d.queue.has_only_idle());
  CHECK(keeps_for(d) >= 2'700 * us);
}

TEST_CASE("idle: the stint is short from the pick on, though the request is from a time without others") {
  features f = with_stint();
  f.wakeup_preemption = false;  // the normal one does not just take over
  driver d(f);
  idle_entity a, b;
  entity normal;
  d.spawn(a);
  d.spawn(b);
  d.pick();
  d.run(ms);
  d.spawn(normal);
  // b is owed half of what a has run: that is no reason to have stint after stint.
  for (int turn = 0; turn < times(50); ++turn) {
    REQUIRE(run_until(d, b, 10'000 * ms));
    CHECK(keeps_for(d) <= stint);
    REQUIRE(d.queue.current() == &normal);
  }
}

TEST_CASE("idle: others do not get shorter bursts because an idle entity asks for little") {
  driver d(with_stint());
  idle_entity idle;
  entity a, b;
  d.spawn(a);
  d.spawn(b);
  d.spawn(idle);
  d.pick();
  nanos longest = 0;
  for (int turn = 0; turn < 20; ++turn) {
    longest = std::max(longest, keeps_for(d));
  }
  CHECK(longest >= 2'700 * us);
}

TEST_CASE("idle: whoever becomes idle in the middle of a stint is asked to give way to the others") {
  driver d(with_stint());
  entity a, b;
  d.spawn(a);
  d.spawn(b);
  d.pick();
  entity& current = *d.queue.current();
  d.run(100 * us);
  CHECK(d.queue.set_policy(current, policy::idle, idle_weight, d.now));
  CHECK(d.queue.need_resched());
  CHECK(d.pick() != &current);
}

TEST_CASE("idle: no credit on waking beside normal work, unless the knob is off") {
  for (const bool is_cut : {false, true}) {
    CAPTURE(is_cut);
    features f = features::linux_7_1();
    f.cut_idle_credit = is_cut;
    driver d(f);
    entity normal;
    idle_entity idle;
    d.spawn(normal);
    d.pick();
    d.run(ms);
    idle.vlag = virtual_ns(100 * ms);
    CHECK_FALSE(d.wake(idle));
    CHECK(d.lag(idle).ticks <= (is_cut ? 0 : virtual_ns(100 * ms).ticks));
    CHECK((d.lag(idle).ticks > 0) == !is_cut);
    // A debt is nobody's favour: it stays.
    idle_entity debtor;
    debtor.vlag = virtual_ns(-100 * ms);
    d.wake(debtor);
    CHECK(d.lag(debtor) < virtual_ns(-99 * ms));
  }
}

TEST_CASE("idle: beside idle work a waking idle entity keeps its credit") {
  features f = features::linux_7_1();
  f.cut_idle_credit = true;
  driver d(f);
  idle_entity running, waking;
  d.spawn(running);
  d.pick();
  d.run(ms);
  waking.vlag = virtual_ns(ms);
  d.wake(waking);
  CHECK(d.lag(waking).ticks > 0);
}

TEST_CASE("idle: whether all runnable work is idle") {
  driver d(features::linux_7_1());
  idle_entity a, b;
  entity normal;
  CHECK_FALSE(d.queue.has_only_idle());
  d.spawn(a);
  CHECK(d.queue.has_only_idle());
  d.pick();
  d.spawn(b);
  CHECK(d.queue.has_only_idle());
  d.spawn(normal);
  CHECK_FALSE(d.queue.has_only_idle());
  d.detach(normal);
  CHECK(d.queue.has_only_idle());
  d.queue.set_policy(b, policy::batch, nice_0_weight, d.now);
  CHECK_FALSE(d.queue.has_only_idle());
  d.queue.set_policy(b, policy::idle, idle_weight, d.now);
  CHECK(d.queue.has_only_idle());
}

TEST_CASE("idle: a normal sleeper that is still queued is no work") {
  driver d(features::linux_7_1());  // with delayed dequeue
  idle_entity idle;
  entity normal;
  d.spawn(normal);
  d.pick();
  d.spawn(idle);
  d.run(5 * ms);
  d.park();
  REQUIRE(normal.delayed);
  CHECK(d.queue.current() == &idle);
  CHECK(d.queue.has_only_idle());
  d.wake(normal);
  CHECK_FALSE(d.queue.has_only_idle());
}

}  // namespace lagom::test
