// SPDX-License-Identifier: BSL-1.0
#include <lagom/event.hpp>

#include <stdexcept>

#include <lagom/wait_group.hpp>

#include "sync_crowd.hpp"

using namespace sync_test;

TEST_CASE("event, manual: all pass until reset") {
  for (const setting& s : settings) {
    lagom::event e;
    std::atomic<int> through{0};
    crowd c(s);
    c.start_many(40, [&](int) {
      e.wait();
      ++through;
    });
    c.start([&] {
      let_others_run();
      c.expect(through == 0 && !e.is_set(), "passed too early");
      e.set();
      e.set();
    });
    c.finish();
    CHECK(through == 40);
    CHECK(e.is_set());
    e.wait();
    e.reset();
    CHECK_FALSE(e.is_set());
    CHECK_FALSE(e.try_wait());
    CHECK_FALSE(e.wait_for(1ms));
  }
}

TEST_CASE("event, automatic: one set, one passes") {
  for (const setting& s : settings) {
    lagom::event e(lagom::reset::automatic);
    std::atomic<int> through{0};
    crowd c(s);
    c.start_many(10, [&](int) {
      e.wait();
      ++through;
    });
    c.start([&] {
      for (int i = 1; i <= 10; ++i) {
        e.set();
        while (through < i) nap(50us);
        c.expect(through == i, "one set, two passed");
      }
    });
    c.finish();
    CHECK_FALSE(e.is_set());
    e.set();
    e.set();
    CHECK(e.try_wait());
    CHECK_FALSE(e.try_wait());
  }
}

TEST_CASE("event: the time") {
  for (const setting& s : settings) {
    lagom::event e;
    crowd c(s);
    c.start_many(2, [&](int) {
      const auto begin = clock::now();
      c.expect(!e.wait_for(2ms), "not set");
      c.expect(clock::now() - begin >= 2ms, "too early");
      c.expect(!e.wait_for(0s) && !e.wait_for(-1s) && !e.wait_until(begin), "zero and less");
    });
    c.finish();
    e.set();
    CHECK(e.wait_for(-1s));
    CHECK(e.wait_until(clock::time_point::min()));
  }
}

TEST_CASE("event, wait_group: a stop request ends the wait") {
  lagom::runtime_options options;
  options.workers = 2;
  lagom::runtime rt(options);
  lagom::event e;
  lagom::wait_group group(1);
  std::atomic<int> waiting{0}, thrown{0}, refused{0};
  auto expect_stopped = [&](auto wait) {
    ++waiting;
    try {
      wait();
    } catch (const std::system_error& error) {
      if (error.code() == lagom::errc::stopped) ++thrown;
    }
  };
  std::vector<lagom::fiber> fibers;
  fibers.push_back(rt.spawn([&] { expect_stopped([&] { e.wait(); }); }));
  fibers.push_back(rt.spawn([&] { expect_stopped([&] { group.wait(); }); }));
  fibers.push_back(rt.spawn([&] { expect_stopped([&] { refused += !e.wait_for(1h); }); }));
  fibers.push_back(rt.spawn([&] { expect_stopped([&] { refused += !group.wait_for(1h); }); }));
  while (waiting != 4) std::this_thread::yield();
  for (lagom::fiber& f : fibers) f.request_stop();
  for (lagom::fiber& f : fibers) f.join();
  CHECK(thrown == 2);
  CHECK(refused == 2);
}

TEST_CASE("wait_group: waits for all, again and again") {
  for (const setting& s : settings) {
    lagom::wait_group group;
    for (int round = 0; round < 3; ++round) {
      std::atomic<int> ended{0};
      group.add(20);
      crowd c(s);
      c.start_many(20, [&](int i) {
        if (i % 3 == 0) nap(100us);
        ++ended;
        group.done();
      });
      c.start_many(3, [&](int) {
        group.wait();
        c.expect(ended == 20, "did not wait for all");
      });
      c.finish();
      CHECK(group.count() == 0);
    }
  }
}

TEST_CASE("wait_group: the time, and counts that cannot be") {
  lagom::wait_group group(2);
  const auto begin = clock::now();
  CHECK_FALSE(group.wait_for(2ms));
  CHECK(clock::now() - begin >= 2ms);
  CHECK_FALSE(group.wait_for(0s));
  CHECK_FALSE(group.wait_until(begin));
  CHECK_THROWS_AS(group.add(-3), std::invalid_argument);
  CHECK_THROWS_AS(group.add(std::numeric_limits<std::ptrdiff_t>::max()), std::invalid_argument);
  CHECK(group.count() == 2);
  group.add(-2);
  CHECK(group.wait_for(-1s));
  CHECK_THROWS_AS(group.done(), std::invalid_argument);
  CHECK(group.count() == 0);
}
