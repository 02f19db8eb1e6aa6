// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <cstdlib>

#include "driver.hpp"

namespace lagom::test {

TEST_CASE("preemption: a wake-up that fails leaves the window, at most tightened") {
  driver d;
  entity a, b, late;
  d.spawn(a);
  d.pick();
  d.spawn(b);
  d.run(200 * us);
  REQUIRE(d.queue.is_protected());
  const virtual_time window = a.window;
  late.vlag = virtual_ns(-ms);  // not eligible: not the pick
  CHECK_FALSE(d.wake(late));
  CHECK(d.queue.is_protected());
  CHECK(a.window == window);
  entity shorter;
  d.queue.set_slice(shorter, 500 * us, d.now);
  shorter.vlag = virtual_ns(-ms);
  CHECK_FALSE(d.wake(shorter));
  CHECK(d.queue.is_protected());
  CHECK(a.window - a.vruntime == virtual_ns(500 * us));  // now somebody waits who asks for less
}

TEST_CASE("preemption: changing the current one's slice or nice in a loop does not extend its window") {
  driver d;
  entity a, b;
  d.spawn(a);
  d.pick();
  d.spawn(b);
  const virtual_time window = a.window;
  nanos ran = 0;
  while (!d.run(100 * us)) {
    ran += 100 * us;
    REQUIRE(ran < 10 * ms);
    d.queue.set_slice(a, ran % 200'000 == 0 ? ms : 0, d.now);
    CHECK(a.window == window);
    d.queue.reweight(a, a.share, d.now);
    CHECK((a.window - window).ticks <= 0);
  }
  CHECK(ran <= 1'400 * us);
}

TEST_CASE("preemption: a protected current one that is made lighter keeps its window in real time") {
  driver d;
  entity a, b;
  d.spawn(a);
  d.pick();
  d.spawn(b);
  d.run(400 * us);
  const nanos left = d.queue.time_left();
  CHECK(left == ms);
  CHECK(d.queue.reweight(a, weight_of_nice(19), d.now));  // lighter: reschedule
  CHECK(d.queue.need_resched());
  CHECK(d.queue.is_protected());
  CHECK(std::abs(d.queue.time_left() - left) <= 1);
}

TEST_CASE("preemption: wakeup_granularity puts a wake-up's pick off, and does not call it off") {
  for (const nanos granularity : {nanos{0}, 20 * us}) {
    CAPTURE(granularity);
    features knobs = features::linux_7_1();
    knobs.wakeup_granularity = granularity;
    driver d(knobs);
    entity waker, other, wakee;
    d.spawn(waker);
    d.spawn(other);
    d.pick();
    REQUIRE(d.queue.current() == &waker);
    d.run(100 * us);  // ahead of the mean of the two: not eligible
    REQUIRE(d.queue.is_protected());
    REQUIRE_FALSE(d.queue.is_eligible(waker));
    wakee.vlag = virtual_ns(2 * ms);  // its virtual deadline will be the earliest
    const bool at_once = d.wake(wakee);
    CHECK(at_once == (granularity == 0));
    if (at_once) continue;
    CHECK(d.queue.time_left() == granularity);
    CHECK_FALSE(d.run(granularity - us));
    CHECK(d.run(us));
    CHECK(d.pick() == &wakee);
  }
}

TEST_CASE("preemption: with yield_granularity many who only yield take turns in order, and nobody runs away") {
  features knobs = features::linux_7_1();
  knobs.yield_granularity = 20 * us;
  driver d(knobs);
  entity all[8];
  for (entity& e : all) d.spawn(e);
  for (int round = 0; round < 50; ++round) {
    for (entity& e : all) {
      REQUIRE((round == 0 && &e == all ? d.pick() : d.queue.current()) == &e);
      d.run(100);
      d.yield();
    }
  }
  // One who yields again and again while it owes a whole request loses nothing more.
  entity& c = *d.queue.current();
  d.yield();
  const virtual_time after_one = c.vruntime;
  while (d.queue.current() != &c) d.yield();
  CHECK(c.vruntime == after_one);
  const virtual_span most = virtual_ns(2 * static_cast<nanos>(knobs.base_slice));
  for (const entity& e : all) CHECK((e.vruntime - d.queue.virtual_now()) <= most);
}

TEST_CASE("preemption: normal displaces idle at once, idle and batch never displace") {
  driver d;
  entity idle, normal, batch, second_idle;
  idle.kind = second_idle.kind = policy::idle;
  idle.share = second_idle.share = idle_weight;
  batch.kind = policy::batch;
  d.spawn(idle);
  d.pick();
  REQUIRE(d.queue.current() == &idle);
  CHECK_FALSE(d.wake(second_idle));
  CHECK(d.wake(normal));
  CHECK(d.pick() == &normal);
  batch.vlag = virtual_ns(3 * ms);
  CHECK_FALSE(d.wake(batch));
}

TEST_CASE("preemption: without wakeup_preemption nothing displaces, not even an idle one") {
  features knobs = features::linux_7_1();
  knobs.wakeup_preemption = false;
  driver d(knobs);
  entity idle, normal;
  idle.kind = policy::idle;
  idle.share = idle_weight;
  d.spawn(idle);
  d.pick();
  CHECK_FALSE(d.wake(normal));
  CHECK_FALSE(d.queue.need_resched());
}

TEST_CASE("preemption: of the idle class only the entity counts, not how heavy it is") {
  driver d;
  entity light_normal, heavy_idle;
  light_normal.share = weight::of_units(2);
  heavy_idle.kind = policy::idle;
  heavy_idle.share = weight::of_units(88'761);
  d.spawn(heavy_idle);
  d.pick();
  CHECK(d.wake(light_normal));
}

TEST_CASE("preemption: a waiter with a short slice is not kept waiting by a long protected one") {
  // Its lag stays below its own slice and the granularity of looking.
  driver d;
  entity a, b;
  d.queue.set_slice(a, 10 * ms, d.now);
  d.queue.set_slice(b, ms, d.now);
  d.spawn(a);
  d.pick();
  d.spawn(b);
  nanos worst = 0;
  for (int i = 0; i < 2000; ++i) {
    if (d.run(100 * us)) {
      d.pick();
    }
    worst = std::max(worst, d.queue.service_lag(b));
  }
  CHECK(worst > 0);
  CHECK(worst <= ms + 100 * us);
}

TEST_CASE("preemption: no reschedule for a lone one, though its virtual deadline is renewed each slice") {
  driver d;
  entity a;
  d.spawn(a);
  d.pick();
  int renewals = 0;
  for (int i = 0; i < 100; ++i) {
    const virtual_time before = a.virtual_deadline;
    CHECK_FALSE(d.run(ms));
    renewals += a.virtual_deadline == before ? 0 : 1;
    CHECK(is_before(a.vruntime, a.virtual_deadline));
  }
  CHECK(renewals == 33);  // at 2 ms (1.4 is over), then every 3 ms (2.8 is over)
}

TEST_CASE("preemption: request_resched asks until the next pick") {
  driver d(features::runtime());
  entity a, b;
  d.spawn(a);
  d.pick();
  d.spawn(b);
  CHECK_FALSE(d.queue.need_resched());
  d.queue.request_resched();
  CHECK(d.run(1));
  d.pick();
  CHECK_FALSE(d.queue.need_resched());
}

}  // namespace lagom::test
