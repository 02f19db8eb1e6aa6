// SPDX-License-Identifier: BSL-1.0
// yield, checkpoint, yield_point, sleep; what belongs to a fiber across switches.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <string>
#include <vector>

#include "support/fixture.hpp"

using namespace lagom::tests;

TEST_CASE("yield lets others run, in turn") {
  lagom::runtime rt({.workers = 1});
  std::string order;
  rt.run([&] {
    lagom::fiber a = lagom::spawn([&] {
      for (int i = 0; i < 3; ++i) {
        order += 'a';
        lagom::this_fiber::yield();
      }
    });
    lagom::fiber b = lagom::spawn([&] {
      for (int i = 0; i < 3; ++i) {
        order += 'b';
        lagom::this_fiber::yield();
      }
    });
    a.join();
    b.join();
  });
  CHECK(std::count(order.begin(), order.end(), 'a') == 3);
  CHECK(std::count(order.begin(), order.end(), 'b') == 3);
  // In which order exactly is the policy's affair.
  long changes = 0;
  for (std::size_t i = 1; i < order.size(); ++i) changes += order[i] != order[i - 1];
  CHECK(changes >= 3);
}

TEST_CASE("without a preemption point nobody else runs on the worker") {
  lagom::runtime rt({.workers = 1});
  rt.run([&] {
    bool ran = false;
    lagom::fiber other = lagom::spawn([&] { ran = true; });
    for (const auto until = clock::now() + 5ms; clock::now() < until;) {
    }
    CHECK_FALSE(ran);
    other.join();
    CHECK(ran);
  });
}

TEST_CASE("checkpoint gives way only when the slice is used up") {
  lagom::runtime rt({.workers = 1, .slice = 20ms});
  rt.run([&] {
    std::atomic<bool> ran{false}, over{false};
    lagom::fiber other = lagom::spawn([&] {
      ran = true;
      while (!over) lagom::this_fiber::checkpoint();
    });
    lagom::this_fiber::yield();  // other's slice begins, ours when it has used its own
    CHECK(ran);
    ran = false;
    long stints = 0;
    const auto begin = clock::now();
    auto last = begin;
    while (clock::now() - begin < 200ms) {
      lagom::this_fiber::checkpoint();
      const auto now = clock::now();
      if (now - last > 10ms) ++stints;  // somebody else ran meanwhile, and not for a moment only
      last = now;
    }
    over = true;
    other.join();
    CHECK(stints >= 2);
    CHECK(stints <= 11);
  });
}

TEST_CASE("checkpoint finds a fiber spawned from outside while it was alone") {
  for_each_worker_count([](lagom::runtime& rt) {
    std::vector<lagom::fiber> hogs;
    std::atomic<bool> over{false};
    for (unsigned i = 0; i < rt.workers(); ++i) {
      hogs.push_back(rt.spawn([&] {
        while (!over) lagom::this_fiber::checkpoint();
      }));
    }
    for (int i = 0; i < 20; ++i) {
      lagom::fiber probe = rt.spawn([] {});
      REQUIRE(probe.join_for(limit(5s)));
    }
    over = true;
    for (lagom::fiber& f : hogs) f.join();
  });
}

TEST_CASE("yield_point says when to give way, and only then") {
  lagom::runtime rt({.workers = 1, .slice = 2ms});
  rt.run([&] {
    const lagom::yield_point point;
    point();  // what brought us here may have asked for a look
    CHECK_FALSE(point.should_yield());
    bool ran = false;
    lagom::fiber other = lagom::spawn([&] { ran = true; });
    const auto begin = clock::now();
    while (!point.should_yield() && clock::now() - begin < limit(5s)) {
    }
    CHECK(point.should_yield());
    CHECK_FALSE(ran);
    while (!ran && clock::now() - begin < limit(5s)) point();
    CHECK(ran);
    other.join();
    CHECK_FALSE(point.should_yield());
  });
  const lagom::yield_point outside;
  CHECK_FALSE(outside.should_yield());
}

TEST_CASE("nobody wakes early, whatever the clock") {
  for_each_worker_count([](lagom::runtime& rt) {
    verdict v;
    std::vector<lagom::fiber> fibers;
    for (int i = 0; i < 20; ++i) {
      fibers.push_back(rt.spawn([&v, i] {
        for (int turn = 0; turn < 20; ++turn) {
          const auto d = std::chrono::microseconds(1 + (i * 37 + turn * 101) % 3000);
          const auto begin = clock::now();
          lagom::this_fiber::sleep_for(d);
          v.expect(clock::now() - begin >= d, "slept less than asked for");
          const auto tp = clock::now() + d / 3;
          lagom::this_fiber::sleep_until(tp);
          v.expect(clock::now() >= tp, "woke before the time");
          const auto wall = std::chrono::system_clock::now() + d / 3;
          lagom::this_fiber::sleep_until(wall);
          v.expect(std::chrono::system_clock::now() >= wall - 1ms, "woke long before the wall clock's time");
        }
      }));
    }
    for (lagom::fiber& f : fibers) f.join();
  });
}

TEST_CASE("zero and negative sleeps return at once, extreme ones do not return") {
  for_each_worker_count([](lagom::runtime& rt) {
    rt.run([] {
      const auto begin = clock::now();
      for (int i = 0; i < 1000; ++i) {
        lagom::this_fiber::sleep_for(0s);
        lagom::this_fiber::sleep_for(-1s);
        lagom::this_fiber::sleep_for(std::chrono::hours::min());
        lagom::this_fiber::sleep_until(clock::time_point::min());
        lagom::this_fiber::sleep_until(clock::time_point());
      }
      CHECK(clock::now() - begin < 1s);
    });
    for (const auto d : {std::chrono::nanoseconds::max(), std::chrono::nanoseconds::max() - 1ns, std::chrono::nanoseconds::max() / 2}) {
      lagom::fiber f = rt.spawn([d] { (void)error_of([d] { lagom::this_fiber::sleep_for(d); }); });
      CHECK_FALSE(f.join_for(2ms));
      f.request_stop();
      f.join();
    }
    lagom::fiber f = rt.spawn([] { (void)error_of([] { lagom::this_fiber::sleep_for(std::chrono::hours::max()); }); });
    CHECK_FALSE(f.join_for(2ms));
    f.request_stop();
    f.join();
  });
}

TEST_CASE("sleepers of equal and of mixed times wake in order on one worker") {
  lagom::runtime rt({.workers = 1});
  std::vector<int> order;
  rt.run([&] {
    const auto start = clock::now() + 10ms;
    std::vector<lagom::fiber> fibers;
    for (int i = 9; i >= 0; --i) {
      fibers.push_back(lagom::spawn([&, i] {
        lagom::this_fiber::sleep_until(start + i * 1ms);
        order.push_back(i);
      }));
    }
    for (lagom::fiber& f : fibers) f.join();
  });
  CHECK(order.size() == 10);
  CHECK(std::is_sorted(order.begin(), order.end()));
}

namespace {

struct numbered {
  int number;
};

// Throws i, waits in the handler, throws on; checks at each stage that what is caught is its own.
void throw_and_wait(verdict& v, int i, int depth) {
  try {
    if (depth > 0) throw_and_wait(v, i, depth - 1);
    throw numbered{i};
  } catch (const numbered& e) {
    v.expect(e.number == i, "somebody else's exception");
    if (i % 2 == 0) {
      lagom::this_fiber::yield();
    } else {
      lagom::this_fiber::sleep_for(std::chrono::microseconds(i));
    }
    v.expect(e.number == i, "somebody else's exception after the wait");
    v.expect(std::uncaught_exceptions() == 0, "uncaught_exceptions in a handler");
    try {
      throw;
    } catch (const numbered& again) {
      v.expect(again.number == i && &again == &e, "rethrown, it is another");
    }
    if (depth > 0) throw;
  }
}

struct waits_in_destructor {
  verdict& v;
  ~waits_in_destructor() {
    v.expect(std::uncaught_exceptions() == 1, "uncaught_exceptions while unwinding");
    lagom::this_fiber::yield();
    v.expect(std::uncaught_exceptions() == 1, "uncaught_exceptions after a switch while unwinding");
  }
};

}  // namespace

TEST_CASE("exceptions, caught and in flight, belong to the fiber") {
  lagom::runtime_options chaos;
  chaos.chaos_seed = 11;
  for (const lagom::runtime_options& options : {lagom::runtime_options{}, chaos}) {
    for_each_worker_count(
        [](lagom::runtime& rt) {
          verdict v;
          std::vector<lagom::fiber> fibers;
          for (int i = 0; i < 32; ++i) {
            fibers.push_back(rt.spawn([&v, i] {
              for (int turn = 0; turn < 30; ++turn) {
                try {
                  throw_and_wait(v, i, 2);
                } catch (const numbered& e) {
                  v.expect(e.number == i, "somebody else's exception at the end");
                }
                try {
                  const waits_in_destructor w{v};
                  throw numbered{i};
                } catch (const numbered& e) {
                  v.expect(e.number == i, "somebody else's exception after unwinding");
                }
              }
              v.expect(std::uncaught_exceptions() == 0, "uncaught_exceptions at the end");
            }));
          }
          for (lagom::fiber& f : fibers) f.join();
          CHECK(std::uncaught_exceptions() == 0);
        },
        options);
  }
}

namespace {

// errno by way of calls the compiler cannot see through: it may keep the address of errno, as of any thread-local.
[[gnu::noinline]] void set_errno(int value) {
  errno = value;
  asm volatile("" ::: "memory");
}
[[gnu::noinline]] int get_errno() {
  asm volatile("" ::: "memory");
  return errno;
}

}  // namespace

TEST_CASE("errno belongs to the fiber") {
  lagom::runtime_options options;
  options.chaos_seed = 3;
  for_each_worker_count(
      [](lagom::runtime& rt) {
        verdict v;
        std::vector<lagom::fiber> fibers;
        for (int i = 0; i < 20; ++i) {
          fibers.push_back(rt.spawn([&v, i] {
            for (int turn = 0; turn < 200; ++turn) {
              set_errno(1000 + i);
              lagom::this_fiber::yield();
              v.expect(get_errno() == 1000 + i, "errno changed across a switch");
            }
          }));
        }
        for (lagom::fiber& f : fibers) f.join();
      },
      options);
}

TEST_CASE("long runs of switches in chaos: every fiber gets to its end") {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    lagom::runtime_options options;
    options.chaos_seed = seed;
    for_each_worker_count(
        [](lagom::runtime& rt) {
          std::atomic<long> turns{0};
          lagom::mutex m;
          long guarded = 0;
          std::vector<lagom::fiber> fibers;
          const long each = rounds(300);
          for (int i = 0; i < 50; ++i) {
            fibers.push_back(rt.spawn([&, each] {
              for (long t = 0; t < each; ++t) {
                if (t % 3 == 0) lagom::this_fiber::yield();
                if (t % 3 == 1) lagom::this_fiber::checkpoint();
                if (t % 50 == 2) lagom::this_fiber::sleep_for(1us);
                const std::lock_guard hold(m);
                ++guarded;
                ++turns;
              }
            }));
          }
          for (lagom::fiber& f : fibers) f.join();
          CHECK(turns == 50 * each);
          CHECK(guarded == 50 * each);
        },
        options, {1, 2, 4});
  }
}
