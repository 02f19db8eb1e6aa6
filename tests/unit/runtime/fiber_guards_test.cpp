// SPDX-License-Identifier: BSL-1.0
// The scope guards of this_fiber: non_migratable, no_suspend, uninterruptible.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "child.hpp"
#include "support/fixture.hpp"

using namespace lagom::tests;

static_assert(!std::is_copy_constructible_v<lagom::non_migratable> && !std::is_copy_constructible_v<lagom::no_suspend> &&
              !std::is_copy_constructible_v<lagom::uninterruptible>);

TEST_CASE("non_migratable: the same OS thread across every kind of wait, and only inside") {
  lagom::runtime_options options;
  options.chaos_seed = 9;  // elsewhere at every switch, where that is allowed
  for_each_worker_count(
      [](lagom::runtime& rt) {
        verdict v;
        std::atomic<long> moves{0};
        lagom::mutex m;
        lagom::channel<int> numbers(1);
        std::vector<lagom::fiber> fibers;
        for (int i = 0; i < 20; ++i) {
          fibers.push_back(rt.spawn([&, i] {
            for (int turn = 0; turn < 20; ++turn) {
              {
                const lagom::non_migratable here;
                const int thread = ::gettid();
                const unsigned worker = lagom::this_fiber::worker_index();
                lagom::this_fiber::yield();
                v.expect(::gettid() == thread, "moved by yield");
                lagom::this_fiber::sleep_for(std::chrono::microseconds(i));
                v.expect(::gettid() == thread, "moved by sleep");
                {
                  const lagom::non_migratable nested;
                  const std::lock_guard hold(m);
                  lagom::this_fiber::yield();
                }
                v.expect(::gettid() == thread, "moved by a mutex");
                int value = 0;
                i % 2 == 0 ? numbers.send(1) : numbers.receive(value);
                v.expect(::gettid() == thread, "moved by a channel");
                lagom::blocking([] {});
                v.expect(::gettid() == thread, "moved by blocking");
                v.expect(lagom::this_fiber::worker_index() == worker, "another worker");
              }
              const int thread = ::gettid();
              lagom::this_fiber::yield();
              moves += ::gettid() != thread;
            }
          }));
        }
        for (lagom::fiber& f : fibers) f.join();
        CHECK((moves > 0) == (rt.workers() > 1));
      },
      options);
}

TEST_CASE("non_migratable: a std::mutex held across a wait is unlocked by the thread that locked it") {
  lagom::runtime_options options;
  options.chaos_seed = 4;
  for_each_worker_count(
      [](lagom::runtime& rt) {
        verdict v;
        std::vector<lagom::fiber> fibers;
        for (int i = 0; i < 20; ++i) {
          fibers.push_back(rt.spawn([&] {
            std::recursive_mutex own;  // unlock checks its owner
            for (int turn = 0; turn < 50; ++turn) {
              const lagom::non_migratable here;
              const std::lock_guard hold(own);
              lagom::this_fiber::yield();
              v.expect(own.try_lock(), "not the owner any more");
              own.unlock();
            }
          }));
        }
        for (lagom::fiber& f : fibers) f.join();
      },
      options);
}

TEST_CASE("no_suspend: what need not wait may be done, preemption points do nothing") {
  for_each_worker_count([](lagom::runtime& rt) {
    bool other_ran = false;
    lagom::mutex m;
    lagom::channel<int> c(4);
    long sum = 0;
    rt.run([&] {
      const lagom::non_migratable here;
      lagom::fiber other;
      {
        const lagom::no_suspend outer;
        const lagom::no_suspend inner;
        const std::lock_guard hold(m);
        for (int i = 0; i < 4; ++i) c.send(1);
        for (int v = 0; c.try_receive(v) == lagom::channel_status::ok;) sum += v;
        // Long enough for every slice to be used up.
        for (const auto until = clock::now() + 5ms; clock::now() < until;) lagom::this_fiber::checkpoint();
      }
      other = lagom::spawn([&] { other_ran = true; });
      other.join();
    });
    CHECK(sum == 4);
    CHECK(other_ran);
  });
}

TEST_CASE("no_suspend: on one worker nobody else runs") {
  lagom::runtime rt({.workers = 1, .slice = 1ms});
  bool ran = false, ran_inside = false;
  rt.run([&] {
    lagom::fiber other = lagom::spawn([&] { ran = true; });
    {
      const lagom::no_suspend stay;
      for (const auto until = clock::now() + 10ms; clock::now() < until;) lagom::this_fiber::checkpoint();
      ran_inside = ran;
    }
    other.join();
  });
  CHECK_FALSE(ran_inside);
  CHECK(ran);
}

namespace {

// What a child says in which a fiber named "stays" does `forbidden` inside no_suspend.
template <class F>
child_result after(F forbidden) {
  return run_in_child([&] {
    lagom::runtime rt({.workers = 1});
    rt.spawn({.name = "stays"}, [&] {
        const lagom::no_suspend stay;
        forbidden();
      }).join();
  });
}

}  // namespace

TEST_CASE("no_suspend: a wait inside aborts, naming the fiber and what it would wait for") {
  const child_result sleeps = after([] { lagom::this_fiber::sleep_for(1ms); });
  CHECK(sleeps.killed_by(SIGABRT));
  CHECK(sleeps.output.find("'stays' would be suspended (sleep) inside no_suspend") != std::string::npos);
  const child_result yields = after([] { lagom::this_fiber::yield(); });
  CHECK(yields.killed_by(SIGABRT));
  CHECK(yields.output.find("(yield)") != std::string::npos);
  const child_result locks = after([] {
    lagom::mutex m;
    m.lock();
    m.lock();
  });
  CHECK(locks.killed_by(SIGABRT));
  CHECK(locks.output.find("(mutex)") != std::string::npos);
  const child_result calls = after([] { lagom::blocking([] {}); });
  CHECK(calls.killed_by(SIGABRT));
  CHECK(after([] { lagom::this_fiber::checkpoint(); }).exited_with(0));
}

TEST_CASE("uninterruptible: no wait inside is ended by a stop, the first one after it is") {
  for_each_worker_count([](lagom::runtime& rt) {
    lagom::event inside, go;
    std::error_code error, after;
    bool slept = false, asked = false, got = false;
    std::atomic<bool> callback_ran{false};
    lagom::fiber f = rt.spawn([&](std::stop_token token) {
      const std::stop_callback note(token, [&] { callback_ran = true; });
      error = error_of([&] {
        const lagom::uninterruptible to_the_end;
        {
          const lagom::uninterruptible nested;
        }
        inside.set();
        go.wait();  // the stop comes meanwhile
        const auto until = clock::now() + 2ms;
        lagom::this_fiber::sleep_until(until);
        slept = clock::now() >= until;
        got = lagom::blocking([] { return true; });
        asked = lagom::this_fiber::stop_requested();
      });
      after = error_of([] { lagom::this_fiber::sleep_for(1h); });
    });
    inside.wait();
    f.request_stop();
    CHECK_FALSE(f.join_for(2ms));
    go.set();
    CHECK(f.join_for(limit(10s)));
    CHECK_FALSE(error);
    CHECK(slept);
    CHECK(got);
    CHECK(asked);
    CHECK(callback_ran);
    CHECK(after == lagom::errc::stopped);
  });
}

TEST_CASE("guards do nothing on a plain thread") {
  const lagom::non_migratable here;
  const lagom::no_suspend stay;
  const lagom::uninterruptible to_the_end;
  lagom::this_fiber::sleep_for(1ms);
  lagom::this_fiber::yield();
  lagom::runtime rt({.workers = 1});
  CHECK(rt.run([] { return 1; }) == 1);
}

TEST_CASE("the guards of a fiber do not stay with its block") {
  lagom::runtime rt({.workers = 1});
  for (int i = 0; i < 10; ++i) {
    rt.run([] {
      const lagom::non_migratable here;
      const lagom::uninterruptible to_the_end;
      const lagom::no_suspend stay;
    });
    rt.run([] { lagom::this_fiber::yield(); });
  }
  lagom::fiber f = rt.spawn([] { (void)error_of([] { lagom::this_fiber::sleep_for(1h); }); });
  f.request_stop();
  CHECK(f.join_for(limit(10s)));
}
