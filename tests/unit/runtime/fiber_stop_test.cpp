// SPDX-License-Identifier: BSL-1.0
// Stop: of a fiber, of a runtime; what it ends and what it does not.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "support/fixture.hpp"

using namespace lagom::tests;

TEST_CASE("a callable that takes a stop_token first gets the fiber's") {
  for_each_worker_count([](lagom::runtime& rt) {
    lagom::event running;
    int argument = 0;
    lagom::fiber f = rt.spawn(
        [&](std::stop_token token, int a) {
          argument = a;
          running.set();
          while (!token.stop_requested()) lagom::this_fiber::yield();
        },
        17);
    running.wait();
    CHECK(f.get_stop_token().stop_possible());
    CHECK_FALSE(f.get_stop_token().stop_requested());
    CHECK(f.request_stop());
    CHECK_FALSE(f.request_stop());
    CHECK(f.get_stop_token().stop_requested());
    f.join();
    CHECK(argument == 17);
  });
}

TEST_CASE("the token, the source and the flag of a fiber are one") {
  for_each_worker_count([](lagom::runtime& rt) {
    lagom::event running;
    std::atomic<int> fired{0};
    bool before = true, after = false, inside = false;
    lagom::fiber f = rt.spawn([&] {
      const std::stop_callback call(lagom::this_fiber::get_stop_token(), [&] { ++fired; });
      before = lagom::this_fiber::stop_requested();
      running.set();
      while (!lagom::this_fiber::stop_requested()) lagom::this_fiber::yield();
      after = lagom::this_fiber::stop_requested();
      inside = lagom::this_fiber::get_stop_token().stop_requested();
    });
    running.wait();
    std::stop_source source = f.get_stop_source();
    CHECK(source.stop_possible());
    CHECK(source.get_token() == f.get_stop_token());
    f.request_stop();
    f.join();
    CHECK_FALSE(before);
    CHECK(after);
    CHECK(inside);
    CHECK(fired == 1);
    CHECK(source.stop_requested());
  });
}

TEST_CASE("a stop through the source is one of the fiber, before and after it has ended") {
  for_each_worker_count([](lagom::runtime& rt) {
    std::vector<std::stop_source> late;
    for (int i = 0; i < 20; ++i) {
      lagom::event asleep;
      std::error_code seen;
      bool asked = false;
      lagom::fiber f = rt.spawn([&] {
        asleep.set();
        seen = error_of([] { lagom::this_fiber::sleep_for(1h); });
        asked = lagom::this_fiber::stop_requested();
      });
      std::stop_source source = f.get_stop_source();
      late.push_back(f.get_stop_source());
      if (i % 2 == 0) asleep.wait();
      CHECK(source.request_stop());
      CHECK(f.join_for(limit(5s)));
      CHECK(seen == lagom::errc::stopped);
      CHECK(asked);
      CHECK_FALSE(late.back().request_stop());
    }
    // Those of fibers that have ended touch nobody who has the block now.
    late.clear();
    for (int i = 0; i < 20; ++i) {
      lagom::fiber f = rt.spawn([] {});
      late.push_back(f.get_stop_source());
      f.join();
    }
    lagom::event go;
    std::vector<lagom::fiber> others;
    std::atomic<int> disturbed{0};
    for (int i = 0; i < 40; ++i) {
      others.push_back(rt.spawn([&] {
        disturbed += static_cast<bool>(error_of([&] { go.wait(); }));
        disturbed += lagom::this_fiber::stop_requested();
      }));
    }
    for (std::stop_source& s : late) s.request_stop();
    go.set();
    for (lagom::fiber& f : others) f.join();
    CHECK(disturbed == 0);
  });
}

TEST_CASE("a callback of the token that waits does not move whoever requests the stop") {
  lagom::runtime_options options;
  options.chaos_seed = 8;
  for_each_worker_count(
      [](lagom::runtime& rt) {
        verdict v;
        for (int i = 0; i < 20; ++i) {
          lagom::event registered, over;
          lagom::fiber target = rt.spawn([&](std::stop_token token) {
            const std::stop_callback note(token, [&] {
              const int thread = ::gettid();
              for (int turn = 0; turn < 5; ++turn) lagom::this_fiber::yield();
              v.expect(::gettid() == thread, "moved within request_stop");
              over.set();
            });
            registered.set();
            (void)error_of([] { lagom::this_fiber::sleep_for(1h); });
            const lagom::uninterruptible to_the_end;
            over.wait();  // the callback must not be destroyed while it waits
          });
          rt.spawn([&] {
              registered.wait();
              target.request_stop();
            }).join();
          target.join();
        }
      },
      options, {1, 2, 4});
}

TEST_CASE("a stop wakes a sleeper, which is told; later sleeps return at once") {
  for_each_worker_count([](lagom::runtime& rt) {
    std::error_code first, second;
    lagom::event asleep;
    lagom::fiber f = rt.spawn([&] {
      asleep.set();
      first = error_of([] { lagom::this_fiber::sleep_for(1h); });
      second = error_of([] { lagom::this_fiber::sleep_until(clock::time_point::max()); });
    });
    asleep.wait();
    std::this_thread::sleep_for(1ms);  // most of the time it sleeps by now; either way is right
    f.request_stop();
    CHECK(f.join_for(limit(5s)));
    CHECK(first == lagom::errc::stopped);
    CHECK(second == lagom::errc::stopped);
  });
}

TEST_CASE("a stop requested before the fiber has run") {
  for_each_worker_count([](lagom::runtime& rt) {
    for (int i = 0; i < 50; ++i) {
      std::error_code seen;
      lagom::fiber f = rt.spawn([&] { seen = error_of([] { lagom::this_fiber::sleep_for(1h); }); });
      f.request_stop();
      REQUIRE(f.join_for(limit(5s)));
      CHECK(seen == lagom::errc::stopped);
    }
  });
}

TEST_CASE("a stop ends a join, and the handle stays joinable") {
  for_each_worker_count([](lagom::runtime& rt) {
    lagom::event go;
    std::error_code seen;
    bool still_joinable = false;
    lagom::fiber target = rt.spawn([&] { go.wait(); });
    lagom::fiber joiner = rt.spawn([&] {
      seen = error_of([&] { target.join(); });
      still_joinable = target.joinable();
    });
    joiner.request_stop();
    CHECK(joiner.join_for(limit(5s)));
    CHECK(seen == lagom::errc::stopped);
    CHECK(still_joinable);
    go.set();
    target.join();
  });
}

TEST_CASE("nothing is interrupted while an exception is in flight") {
  for_each_worker_count([](lagom::runtime& rt) {
    std::atomic<bool> in_destructor{false};
    bool slept = false;
    struct sleeper {
      std::atomic<bool>& reached;
      bool& slept;
      ~sleeper() {
        reached = true;
        const auto until = clock::now() + 5ms;
        lagom::this_fiber::sleep_until(until);  // would end the program if it threw here
        slept = clock::now() >= until;
      }
    };
    lagom::fiber f = rt.spawn([&] {
      try {
        const sleeper s{in_destructor, slept};
        throw 1;
      } catch (int) {
      }
    });
    CHECK(becomes_true([&] { return in_destructor.load(); }, limit(5s)));
    f.request_stop();
    f.join();
    CHECK(slept);
  });
}

TEST_CASE("after a stop of the runtime: spawn throws, post says no, run throws, fibers of it are stopped") {
  for_each_worker_count([](lagom::runtime& rt) {
    std::error_code seen, inside, from_fiber;
    std::atomic<bool> told{false};
    const std::stop_callback call(rt.get_stop_token(), [&] { told = true; });
    lagom::event running;
    lagom::fiber f = rt.spawn([&] {
      running.set();
      seen = error_of([] { lagom::this_fiber::sleep_for(1h); });
      inside = error_of([] { lagom::spawn([] {}).join(); });
      from_fiber = error_of([] { lagom::spawn_detached([] {}); });
    });
    running.wait();
    rt.request_stop();
    rt.request_stop();
    f.join();
    CHECK(told);
    CHECK(seen == lagom::errc::stopped);
    CHECK(inside == lagom::errc::stopped);
    CHECK(from_fiber == lagom::errc::stopped);
    CHECK(error_of([&] { rt.spawn([] {}).join(); }) == lagom::errc::stopped);
    CHECK(error_of([&] { rt.spawn_detached([] {}); }) == lagom::errc::stopped);
    CHECK(error_of([&] { rt.run([] {}); }) == lagom::errc::stopped);
    CHECK_FALSE(rt.post([] {}));
    CHECK(rt.stop().clean());
  });
}

TEST_CASE("stop_for reports by name who is left, and what it waits for") {
  for_each_worker_count([](lagom::runtime& rt) {
    lagom::mutex held;
    lagom::event locked, release;
    lagom::fiber owner = rt.spawn({.name = "owner"}, [&] {
      const std::lock_guard hold(held);
      locked.set();
      while (!release.is_set()) lagom::this_fiber::yield();
    });
    locked.wait();
    // A mutex is not given up for a stop.
    lagom::fiber stuck = rt.spawn({.name = "stuck"}, [&] { const std::lock_guard hold(held); });
    CHECK(becomes_true([&] { return stuck.stats().state == lagom::fiber_state::parked; }, limit(5s)));
    lagom::fiber goes = rt.spawn({.name = "goes"}, [] { (void)error_of([] { lagom::this_fiber::sleep_for(1h); }); });

    const auto begin = clock::now();
    const lagom::stop_report report = rt.stop_for(100ms);
    CHECK(clock::now() - begin >= 100ms);
    CHECK_FALSE(report.clean());
    REQUIRE(report.left.size() == 2);
    const auto named = [&](const char* name) {
      const auto found = std::find_if(report.left.begin(), report.left.end(), [&](const auto& f) { return f.name == name; });
      REQUIRE(found != report.left.end());
      return *found;
    };
    CHECK(named("stuck").state == lagom::fiber_state::parked);
    CHECK(named("stuck").wait_reason == "mutex");
    CHECK(named("stuck").since > 0ns);
    CHECK(named("stuck").id == stuck.get_id().value());
    CHECK(named("owner").wait_reason.empty());
    release.set();
    CHECK(rt.stop_for(limit(10s)).clean());
    for (lagom::fiber* f : {&owner, &stuck, &goes}) f->join();
  });
}

TEST_CASE("drain_for waits and cancels nobody") {
  for_each_worker_count([](lagom::runtime& rt) {
    lagom::event go;
    lagom::fiber f = rt.spawn([&] {
      go.wait();
      lagom::this_fiber::sleep_for(2ms);
    });
    CHECK_FALSE(rt.drain_for(5ms));
    CHECK_FALSE(rt.drain_for(-1s));
    CHECK_FALSE(f.get_stop_token().stop_requested());
    go.set();
    CHECK(rt.drain_for(limit(10s)));
    CHECK(rt.stats().fibers == 0);
    f.join();
    // The runtime goes on.
    CHECK(rt.run([] { return 1; }) == 1);
  });
}

TEST_CASE("a runtime that is destroyed stops its fibers and waits for them") {
  const leak_check leaks;
  for (const unsigned workers : {1u, 2u, 4u}) {
    std::atomic<int> ended{0};
    {
      lagom::runtime rt({.workers = workers});
      for (int i = 0; i < 100; ++i) {
        rt.spawn_detached([&] {
          (void)error_of([] { lagom::this_fiber::sleep_for(1h); });
          for (int turn = 0; turn < 10; ++turn) lagom::this_fiber::yield();
          ++ended;
        });
      }
    }
    CHECK(ended == 100);
  }
  leaks.check();
}

TEST_CASE("stops race with spawns: late ones are refused or stopped, none is lost") {
  for (int turn = 0; turn < rounds(50); ++turn) {
    std::atomic<long> begun{0}, ended{0};
    {
      lagom::runtime rt({.workers = 2});
      std::vector<std::thread> threads;
      for (int t = 0; t < 2; ++t) {
        threads.emplace_back([&] {
          while (rt.post([&] {
            ++begun;
            (void)error_of([] { lagom::this_fiber::sleep_for(1h); });
            ++ended;
          })) {
          }
        });
      }
      std::this_thread::sleep_for(1ms);
      rt.request_stop();
      for (std::thread& t : threads) t.join();
    }
    REQUIRE(begun == ended);
  }
}
