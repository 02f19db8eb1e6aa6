// SPDX-License-Identifier: BSL-1.0
// blocking(): results, the size of the pool, stop, what surrounds the function.
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sanitizer.hpp"
#include "support/fixture.hpp"

using namespace lagom::tests;

namespace {

// A door for OS threads.
class gate {
 public:
  void open() {
    open_ = true;
    open_.notify_all();
  }
  void pass() {
    ++arrived;
    open_.wait(false);
  }
  std::atomic<int> arrived{0};

 private:
  std::atomic<bool> open_{false};
};

}  // namespace

TEST_CASE("blocking: values, references, nothing, what cannot be copied, exceptions") {
  for_each_worker_count([](lagom::runtime& rt) {
    rt.run([] {
      const std::thread::id worker = std::this_thread::get_id();
      std::thread::id other;
      int target = 0;
      lagom::blocking([&] { other = std::this_thread::get_id(); });
      int& reference = lagom::blocking([&]() -> int& { return target; });
      auto owned = lagom::blocking([p = std::make_unique<int>(6)]() mutable { return std::move(p); });
      const auto function = [](/* const */) { return std::string("text"); };
      const std::string text = lagom::blocking(function);
      bool caught = false;
      try {
        lagom::blocking([]() -> int { throw std::runtime_error("on purpose"); });
      } catch (const std::runtime_error& e) {
        caught = e.what() == std::string("on purpose");
      }
      CHECK(other != worker);
      CHECK(other != std::thread::id());
      CHECK(&reference == &target);
      CHECK(*owned == 6);
      CHECK(text == "text");
      CHECK(caught);
      CHECK(std::uncaught_exceptions() == 0);
    });
  });
}

TEST_CASE("blocking: a plain thread runs it itself") {
  const auto self = std::this_thread::get_id();
  CHECK(lagom::blocking([] { return std::this_thread::get_id(); }) == self);
  int target = 0;
  CHECK(&lagom::blocking({.os_nice = 19}, [&]() -> int& { return target; }) == &target);
  CHECK_THROWS_AS(lagom::blocking([] { throw std::runtime_error("on purpose"); }), std::runtime_error);
  CHECK(::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid())) != 19);
}

TEST_CASE("blocking: the function is on a plain thread; a nested call stays there") {
  for_each_worker_count([](lagom::runtime& rt) {
    rt.run([&] {
      lagom::fiber_local<int> number;
      *number = 5;
      std::error_code spawned;
      bool fiber_inside = true, own_value = true, nested_elsewhere = true;
      lagom::blocking([&] {
        fiber_inside = lagom::this_fiber::get_id() != lagom::fiber::id() || lagom::runtime::current() != nullptr;
        own_value = number.get_if() == nullptr;
        nested_elsewhere = lagom::blocking([] { return std::this_thread::get_id(); }) != std::this_thread::get_id();
        spawned = error_of([] { lagom::spawn([] {}).join(); });
      });
      CHECK_FALSE(fiber_inside);
      CHECK(own_value);
      CHECK_FALSE(nested_elsewhere);
      CHECK(spawned == lagom::errc::no_runtime);
      CHECK(*number == 5);
    });
  });
}

TEST_CASE("blocking: the worker goes on with other fibers") {
  lagom::runtime rt({.workers = 1});
  gate g;
  lagom::fiber held = rt.spawn([&] { lagom::blocking([&] { g.pass(); }); });
  REQUIRE(becomes_true([&] { return g.arrived == 1; }, limit(10s)));
  long turns = 0;
  rt.run([&] {
    for (; turns < 100; ++turns) lagom::this_fiber::sleep_for(10us);
  });
  CHECK(turns == 100);
  CHECK(held.stats().state == lagom::fiber_state::parked);
  g.open();
  held.join();
}

TEST_CASE("blocking: the pool grows on demand, is bounded, queues the rest in order, shrinks when idle") {
  lagom::runtime_options options;
  options.max_blocking_threads = 3;
  options.blocking_keep_alive = 20ms;
  for_each_worker_count(
      [](lagom::runtime& rt) {
        CHECK(rt.stats().blocking_threads == 0);
        gate g;
        std::mutex order_guard;
        std::vector<int> order;
        std::vector<lagom::fiber> fibers;
        for (int i = 0; i < 3; ++i) {
          fibers.push_back(rt.spawn([&] { lagom::blocking([&] { g.pass(); }); }));
          REQUIRE(becomes_true([&] { return g.arrived == i + 1; }, limit(10s)));
          CHECK(rt.stats().blocking_threads == static_cast<std::size_t>(i + 1));
        }
        for (int i = 0; i < 10; ++i) {
          fibers.push_back(rt.spawn([&, i] {
            lagom::blocking([&] {
              const std::lock_guard hold(order_guard);
              order.push_back(i);
            });
          }));
          REQUIRE(becomes_true([&] { return rt.stats().blocking_calls == static_cast<std::size_t>(4 + i); }, limit(10s)));
        }
        CHECK(rt.stats().blocking_threads == 3);
        CHECK(order.empty());
        g.open();
        for (lagom::fiber& f : fibers) f.join();
        CHECK(order.size() == 10);
        CHECK(rt.stats().blocking_calls == 0);
        CHECK(becomes_true([&] { return rt.stats().blocking_threads == 0; }, limit(10s)));
        // And again.
        const int again = rt.run([] { return lagom::blocking([] { return 1; }); });
        CHECK(again == 1);
      },
      options, {1, 2, 4});
}

TEST_CASE("blocking: one thread runs queued calls in the order in which they came") {
  lagom::runtime rt({.workers = 1, .max_blocking_threads = 1});
  gate g;
  std::vector<int> order;  // by one thread only
  std::vector<lagom::fiber> fibers;
  for (int i = 0; i < 20; ++i) {
    fibers.push_back(rt.spawn([&, i] {
      lagom::blocking([&] {
        if (i == 0) g.pass();
        order.push_back(i);
      });
    }));
    REQUIRE(becomes_true([&] { return rt.stats().blocking_calls == static_cast<std::size_t>(i + 1); }, limit(10s)));
  }
  g.open();
  for (lagom::fiber& f : fibers) f.join();
  for (int i = 0; i < 20; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("blocking: threads come and go while calls come and go") {
  lagom::runtime_options options;
  options.max_blocking_threads = 8;
  options.blocking_keep_alive = 1us;  // ends at nearly every pause
  for_each_worker_count(
      [](lagom::runtime& rt) {
        std::atomic<long> sum{0};
        std::vector<lagom::fiber> fibers;
        const long each = rounds(200);
        for (int i = 0; i < 16; ++i) {
          fibers.push_back(rt.spawn([&, i, each] {
            for (long k = 0; k < each; ++k) {
              sum += lagom::blocking([&] { return i + k; }) - i - k + 1;
              if (k % 8 == i % 8) lagom::this_fiber::sleep_for(50us);
            }
          }));
        }
        for (lagom::fiber& f : fibers) f.join();
        CHECK(sum == 16 * each);
      },
      options, {1, 2, 4});
}

TEST_CASE("blocking: a stop ends what has not begun, never what has") {
  lagom::runtime_options options;
  options.max_blocking_threads = 1;
  for_each_worker_count(
      [](lagom::runtime& rt) {
        gate g;
        std::error_code running, queued, before;
        bool called = false, ended = false;
        lagom::fiber first = rt.spawn([&] {
          running = error_of([&] {
            lagom::blocking([&] {
              g.pass();
              ended = true;
            });
          });
          // Stopped by now: the next one does not begin.
          before = error_of([&] { lagom::blocking([&] { called = true; }); });
        });
        REQUIRE(becomes_true([&] { return g.arrived == 1; }, limit(10s)));
        lagom::fiber second = rt.spawn([&] { queued = error_of([&] { lagom::blocking([&] { called = true; }); }); });
        REQUIRE(becomes_true([&] { return rt.stats().blocking_calls == 2; }, limit(10s)));
        first.request_stop();
        second.request_stop();
        CHECK(second.join_for(limit(10s)));
        CHECK(queued == lagom::errc::stopped);
        CHECK(rt.stats().blocking_calls == 1);
        CHECK_FALSE(first.join_for(2ms));
        g.open();
        first.join();
        CHECK(ended);
        CHECK_FALSE(running);
        CHECK(before == lagom::errc::stopped);
        CHECK_FALSE(called);
      },
      options, {1, 2, 4});
}

TEST_CASE("blocking: stops race with beginnings and ends") {
  lagom::runtime_options options;
  options.max_blocking_threads = 2;
  for_each_worker_count(
      [](lagom::runtime& rt) {
        verdict v;
        for (long turn = 0; turn < rounds(300); ++turn) {
          std::vector<lagom::fiber> fibers;
          for (int i = 0; i < 6; ++i) {
            fibers.push_back(rt.spawn([&] {
              int seen = 0;
              const std::error_code e = error_of([&] { seen = lagom::blocking([] { return 1; }); });
              v.expect(e ? seen == 0 && e == lagom::errc::stopped : seen == 1, "neither stopped nor done");
            }));
          }
          if (turn % 3 == 0) std::this_thread::yield();
          for (lagom::fiber& f : fibers) f.request_stop();
          for (lagom::fiber& f : fibers) f.join();
        }
      },
      options, {1, 2, 4});
}

TEST_CASE("blocking: stop_for names who is in a call, the runtime's end waits for it") {
  const leak_check leaks;
  for (const unsigned workers : {1u, 2u}) {
    gate g;
    bool ended = false;
    std::thread opener;
    {
      lagom::runtime rt({.workers = workers});
      lagom::fiber f = rt.spawn({.name = "in a call"}, [&] {
        lagom::blocking([&] {
          g.pass();
          ended = true;
        });
      });
      REQUIRE(becomes_true([&] { return g.arrived == 1; }, limit(10s)));
      const lagom::stop_report report = rt.stop_for(5ms);
      REQUIRE(report.left.size() == 1);
      CHECK(report.left[0].name == "in a call");
      CHECK(report.left[0].wait_reason == "blocking call");
      f.detach();
      opener = std::thread([&] {
        std::this_thread::sleep_for(5ms);
        g.open();
      });
    }
    CHECK(ended);
    opener.join();
  }
  leaks.check();
}

TEST_CASE("blocking: options reach the thread, and do not stay there") {
  lagom::runtime_options options;
  options.max_blocking_threads = 1;
  for_each_worker_count(
      [](lagom::runtime& rt) {
        struct settings {
          int nice, policy;
          bool operator==(const settings&) const = default;
        };
        const auto look = [] { return settings{::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid())), ::sched_getscheduler(0)}; };
        const settings usual = look();
        settings plain{}, idle{}, batch{}, after{}, clamped{};
        rt.run([&] {
          plain = lagom::blocking(look);
          idle = lagom::blocking({.os_policy = lagom::policy::idle, .os_nice = 7}, look);
          batch = lagom::blocking({.os_policy = lagom::policy::batch}, look);
          clamped = lagom::blocking({.os_nice = 1000}, look);
          after = lagom::blocking(look);
        });
        CHECK(plain == usual);
        CHECK(idle == settings{7, SCHED_IDLE});
        CHECK(batch == settings{usual.nice, SCHED_BATCH});
        CHECK(clamped == settings{19, usual.policy});
        CHECK(after == usual);
      },
      options, {1, 2});
}

TEST_CASE("blocking: the threads may use every CPU, whatever the workers are bound to") {
  const auto mask = [] {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    ::sched_getaffinity(0, sizeof cpus, &cpus);
    return cpus;
  };
  const cpu_set_t usual = mask();
  for (const lagom::pin mode : {lagom::pin::cpu, lagom::pin::llc, lagom::pin::none}) {
    lagom::runtime_options options;
    options.workers = 1;
    options.pin_mode = mode;
    lagom::runtime rt(options);
    cpu_set_t inside{};
    rt.run([&] { inside = lagom::blocking(mask); });
    CHECK(CPU_EQUAL(&inside, &usual));
  }
}

namespace {

// Lets the process map no more than `room` bytes more; gives it back at the end.
class little_memory {
 public:
  explicit little_memory(std::size_t room) {
    ::getrlimit(RLIMIT_AS, &before_);
    std::ifstream statm("/proc/self/statm");
    std::size_t pages = 0;
    statm >> pages;
    const rlimit less{pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + room, before_.rlim_max};
    ::setrlimit(RLIMIT_AS, &less);
  }
  ~little_memory() { ::setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("blocking: no thread can be started: an error, for all who wait for one; then it works again") {
  if (under_sanitizer) return;  // they need address space without end
  for_each_worker_count(
      [](lagom::runtime& rt) {
        std::atomic<int> refused{0}, called{0}, done{0};
        lagom::event go;
        // The C library keeps stacks of ended threads, 40 MiB of them at most: these take them.
        gate g;
        std::vector<std::thread> takers;
        for (int i = 0; i < 8; ++i) takers.emplace_back([&] { g.pass(); });
        std::vector<lagom::fiber> fibers;
        for (int i = 0; i < 10; ++i) {
          fibers.push_back(rt.spawn([&] {
            go.wait();
            refused += error_of([&] { lagom::blocking([&] { ++called; }); }) == std::errc::resource_unavailable_try_again;
            ++done;
          }));
        }
        {
          const little_memory scarce(2 << 20);  // less than a stack of a thread
          go.set();
          CHECK(becomes_true([&] { return done == 10; }, limit(10s)));
        }
        for (lagom::fiber& f : fibers) f.join();
        g.open();
        for (std::thread& t : takers) t.join();
        CHECK(refused == 10);
        CHECK(called == 0);
        CHECK(rt.stats().blocking_threads == 0);
        const int again = rt.run([] { return lagom::blocking([] { return 1; }); });
        CHECK(again == 1);
      },
      {}, {1, 2, 4});
}

TEST_CASE("blocking: its options are checked") {
  CHECK_THROWS_AS(lagom::runtime({.max_blocking_threads = 1'000'000'000}), std::invalid_argument);
  lagom::runtime_options negative;
  negative.blocking_keep_alive = -1ns;
  CHECK_THROWS_AS(lagom::runtime{negative}, std::invalid_argument);
  lagom::runtime_options zero;
  zero.max_blocking_threads = 0;  // the default
  lagom::runtime rt(zero);
  const int one = rt.run([] { return lagom::blocking([] { return 1; }); });
  CHECK(one == 1);
}
