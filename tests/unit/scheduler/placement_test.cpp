// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <deque>

#include "driver.hpp"

namespace lagom::test {
namespace {

features without_delay() {
  features f = features::linux_7_1();
  f.delay_dequeue = false;
  return f;
}

features repaying() {
  features f = without_delay();
  f.repay_asleep = true;
  f.debt_granularity = 10'000 * ms;
  return f;
}

// A runs `ran` next to B, whose turn it would be, and parks in debt.
void park_in_debt(driver& d, entity& a, entity& b, nanos ran) {
  d.spawn(a);
  d.pick();
  d.spawn(b);
  REQUIRE(d.queue.current() == &a);
  d.run(ran);
  REQUIRE(d.park() == &b);
}

}  // namespace

TEST_CASE("placement: a spawned entity joins at V with half a request and inherits nothing") {
  driver d(without_delay());
  entity parent, child;
  d.spawn(parent);
  d.pick();
  d.run(ms);
  child.vlag = {0};
  CHECK_FALSE(d.spawn(child));  // a fork does not preempt
  CHECK(child.vruntime == d.queue.virtual_now());
  CHECK(child.virtual_deadline - child.vruntime == virtual_ns(1'400'000));
  CHECK_FALSE(child.delayed);
  CHECK_FALSE(child.deadline_is_relative);
}

TEST_CASE("placement: who joins with a lag has exactly that lag afterwards, however heavy") {
  for (const std::uint32_t units : {2U, 1024U, 10'240U, 88'761U}) {
    for (const std::int64_t lag : {-300'000, -1, 1, 300'000}) {
      CAPTURE(units);
      CAPTURE(lag);
      driver d(without_delay());
      entity a, b, joiner;
      d.spawn(a);
      d.spawn(b);
      d.pick();
      d.run(ms);
      joiner.share = weight::of_units(units);
      joiner.vlag = virtual_ns(lag);
      d.wake(joiner);
      const std::int64_t off = (d.lag(joiner) - virtual_ns(lag)).ticks;
      CHECK(off >= -1);  // V rounds down
      CHECK(off <= 1);
      d.queue.check_invariants();
    }
  }
}

TEST_CASE("placement: an empty queue ignores lag of both signs and stands where it was left") {
  for (const std::int64_t lag : {-ms, ms}) {
    driver d(without_delay());
    entity first, joiner;
    d.spawn(first);
    d.pick();
    d.run(5 * ms);
    CHECK(d.exit() == nullptr);
    CHECK(d.queue.virtual_now() == first.vruntime);
    joiner.vlag = virtual_ns(lag);
    CHECK(d.wake(joiner));  // somebody has to run it
    CHECK(joiner.vruntime == first.vruntime);
  }
}

TEST_CASE("placement: credit survives any sleep, within the limit, and preempts") {
  driver d(without_delay());
  entity sleeper, hog;
  d.spawn(sleeper);
  d.pick();
  d.spawn(hog);
  hog.sum_exec = 0;
  // Parks while it is owed much: the hog overran by 50 ms.
  REQUIRE(d.yield() == &hog);
  d.run(50 * ms);
  d.pick();
  REQUIRE(d.queue.current() == &sleeper);
  d.park();
  CHECK(sleeper.vlag == virtual_ns(3'800'000));  // longest slice 2.8 ms + tick 1 ms
  d.run(nanos{3600} * 1'000'000'000);
  d.queue.charge(d.now);
  CHECK(d.wake(sleeper));
  CHECK(d.pick() == &sleeper);
}

TEST_CASE("placement: no granularity for debts means that overruns are forgiven") {
  driver d(without_delay());
  entity a, b;
  park_in_debt(d, a, b, 500 * ms);
  CHECK(a.vlag == virtual_ns(-3'800'000));
}

TEST_CASE("placement: the runtime's debt limit keeps an overrun of half a second") {
  features knobs = features::runtime();
  knobs.repay_asleep = false;
  driver d(knobs);
  entity a, b;
  park_in_debt(d, a, b, 500 * ms);
  CHECK(a.vlag == virtual_ns(-250 * ms));
  d.wake(a);
  CHECK(d.lag(a) == virtual_ns(-250 * ms));
  // Its credit is limited tightly all the same.
  d.run(499 * ms);
  CHECK(d.pick() == &b);  // still its turn
  d.run(251 * ms);
  CHECK(d.pick() == &a);
  d.park();
  CHECK(a.vlag.ticks <= virtual_ns(600 * us).ticks);
}

TEST_CASE("repaying asleep: as if the sleeper had stayed queued") {
  for (const nanos slept : {nanos{0}, us, ms, 3 * ms, 5 * ms, 50 * ms}) {
    for (const std::uint32_t units : {15U, 1024U, 3121U}) {
      CAPTURE(slept);
      CAPTURE(units);
      driver left(repaying()), stayed(features::linux_7_1());
      entity a, b, a2, b2;
      a.share = a2.share = weight::of_units(units);
      park_in_debt(left, a, b, 4 * ms);
      park_in_debt(stayed, a2, b2, 4 * ms);
      CHECK_FALSE(a.on_rq);
      CHECK(a2.delayed);
      left.run(slept);
      stayed.run(slept);
      // b has to know where V is; with nobody else queued b is never dropped from the pick, so a2 stays delayed.
      REQUIRE(a2.on_rq);
      const bool is_paid = stayed.queue.is_eligible(a2);
      left.wake(a);
      CHECK((a.vruntime - (is_paid ? b.vruntime : a2.vruntime)).ticks == 0);
      left.queue.check_invariants();
    }
  }
}

TEST_CASE("repaying asleep: never earns credit, and an hour pays any debt") {
  driver d(repaying());
  entity a, b;
  park_in_debt(d, a, b, 500 * ms);
  d.run(nanos{3600} * 1'000'000'000);
  d.wake(a);
  CHECK(a.vruntime == d.queue.virtual_now());
  CHECK(d.lag(a).ticks == 0);
}

TEST_CASE("repaying asleep: the debt does not grow when V moves back") {
  driver d(repaying());
  entity a, b, heavy;
  heavy.share = weight::of_units(88'761);
  park_in_debt(d, a, b, 2 * ms);
  const virtual_span debt = a.vlag;
  heavy.vlag = virtual_ns(-3 * ms);
  d.wake(heavy);  // far right of V: takes V along when it leaves
  d.detach(heavy);
  d.wake(a);
  CHECK(d.lag(a) >= debt - virtual_span{2});
  d.queue.check_invariants();
}

TEST_CASE("repaying asleep: on another run queue the debt comes along whole") {
  driver home(repaying()), away(repaying());
  entity a, b, c, e;
  park_in_debt(home, a, b, 3 * ms);
  const virtual_span debt = a.vlag;
  away.spawn(c);
  away.spawn(e);
  away.pick();
  away.run(ms);
  away.wake(a);
  CHECK((away.lag(a) - debt).ticks >= -1);
  CHECK((away.lag(a) - debt).ticks <= 1);
}

TEST_CASE("repaying asleep: a weight changed meanwhile scales what is still owed") {
  driver d(repaying());
  entity a, b;
  park_in_debt(d, a, b, 4 * ms);  // a is 4 ms of its own virtual time right of b
  d.run(ms);
  d.queue.reweight(a, weight::of_units(2048), d.now);
  d.wake(a);
  CHECK(a.vruntime - b.vruntime == virtual_ns(1'500'000));  // (4 - 1) / 2
  entity c;
  d.spawn(c);
  d.run(100 * ms);
  d.pick();
  d.queue.check_invariants();
}

TEST_CASE("migration: lag and the rest of the request come along, on any queue") {
  driver from(without_delay()), to(without_delay(), {std::uint64_t{1} << 63});
  entity a, b, c, e;
  from.spawn(a);
  from.spawn(b);
  from.pick();
  from.run(ms);
  const virtual_span lag = from.lag(b);
  const virtual_span rest = b.virtual_deadline - b.vruntime;
  from.detach(b);
  CHECK_FALSE(b.on_rq);
  to.spawn(c);
  to.spawn(e);
  to.pick();
  to.run(ms);
  to.attach(b);
  CHECK((to.lag(b) - lag).ticks >= -1);
  CHECK((to.lag(b) - lag).ticks <= 1);
  CHECK(b.virtual_deadline - b.vruntime == rest);
}

TEST_CASE("migration: 1000 times there and back neither renews the request nor moves anybody") {
  driver d(without_delay());
  entity a, b;
  d.spawn(a);
  d.spawn(b);
  d.pick();
  d.run(ms);
  const virtual_time v = b.vruntime, deadline = b.virtual_deadline, mean = d.queue.virtual_now();
  for (int i = 0; i < 1000; ++i) {
    d.detach(b);
    d.attach(b);
  }
  CHECK((b.vruntime - v).ticks <= 1000);
  CHECK((b.vruntime - v).ticks >= -1000);
  CHECK((b.virtual_deadline - deadline) == (b.vruntime - v));
  CHECK((d.queue.virtual_now() - mean).ticks <= 1000);
  CHECK((d.queue.virtual_now() - mean).ticks >= -1000);
}

TEST_CASE("delayed: exit, policy change and migration remove it once, and waking it then is a normal join") {
  for (const int how : {0, 1, 2}) {
    CAPTURE(how);
    driver d;
    entity a, b;
    park_in_debt(d, a, b, 2 * ms);
    REQUIRE(a.delayed);
    CHECK(d.queue.queued() == 2);
    CHECK(d.queue.runnable() == 1);
    if (how == 0) {
      d.queue.dequeue(a, leaving::exited, d.now);
      CHECK_FALSE(a.delayed);
    } else if (how == 1) {
      d.queue.set_policy(a, policy::batch, nice_0_weight, d.now);
      CHECK(a.delayed);  // still asleep, still queued
      CHECK(d.queue.queued() == 2);
      CHECK(d.queue.runnable() == 1);
      d.queue.check_invariants();
      continue;
    } else {
      d.detach(a);
    }
    CHECK(d.queue.queued() == 1);
    CHECK(d.queue.runnable() == 1);
    d.queue.check_invariants();
    d.wake(a);
    CHECK(a.on_rq);
    CHECK_FALSE(a.delayed);
    CHECK(d.queue.runnable() == 2);
    d.queue.check_invariants();
  }
}

}  // namespace lagom::test
