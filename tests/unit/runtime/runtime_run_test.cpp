// SPDX-License-Identifier: BSL-1.0
// runtime::run, spawning from everywhere, several runtimes.
#include <array>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "support/fixture.hpp"

using namespace lagom::tests;

TEST_CASE("run returns what the function returns") {
  for_each_worker_count([](lagom::runtime& rt) {
    CHECK(rt.run([] { return 42; }) == 42);

    // Move-only values, references to what lives outside, and nothing.
    const std::unique_ptr<int> moved = rt.run([] { return std::make_unique<int>(7); });
    CHECK(*moved == 7);
    int outside = 1;
    auto& same = rt.run([&]() -> int& { return outside; });
    CHECK(&same == &outside);
    static_assert(std::is_same_v<decltype(rt.run([]() -> int& { throw 1; })), int&>);
    rt.run([&] { outside = 2; });
    CHECK(outside == 2);

    // A value whose type cannot be default-constructed or assigned.
    struct stubborn {
      explicit stubborn(int v) : value(v) {}
      stubborn(stubborn&&) = default;
      stubborn& operator=(stubborn&&) = delete;
      const int value;
    };
    CHECK(rt.run([] { return stubborn(3); }).value == 3);
  });
}

TEST_CASE("run rethrows what the function throws, and goes on") {
  for_each_worker_count([](lagom::runtime& rt) {
    CHECK_THROWS_WITH_AS(rt.run([]() -> int { throw std::runtime_error("one"); }), "one", std::runtime_error);
    CHECK_THROWS_AS(rt.run([] { throw 5; }), int);
    CHECK(rt.run([] { return 1; }) == 1);
    CHECK(std::uncaught_exceptions() == 0);
  });
}

TEST_CASE("run on a fiber would deadlock, whatever runtime it is of") {
  for_each_worker_count(
      [](lagom::runtime& rt) {
        lagom::runtime other({.workers = 1});
        const auto own = rt.run([&] { return error_of([&] { rt.run([] {}); }); });
        const auto foreign = rt.run([&] { return error_of([&] { other.run([] {}); }); });
        CHECK(own == lagom::errc::would_deadlock);
        CHECK(foreign == lagom::errc::would_deadlock);
        const auto stopping = rt.run([&] { return error_of([&] { (void)rt.stop(); }); });
        CHECK(stopping == lagom::errc::would_deadlock);
        const auto draining = rt.run([&] { return error_of([&] { rt.drain_for(1s); }); });
        CHECK(draining == lagom::errc::would_deadlock);
      },
      {}, {1, 2});
}

TEST_CASE("current runtime, worker and id are those of the fiber; a plain thread has none") {
  CHECK(lagom::runtime::current() == nullptr);
  CHECK(lagom::this_fiber::worker_index() == lagom::runtime::no_worker);
  CHECK(lagom::this_fiber::get_id() == lagom::fiber::id());
  CHECK(error_of([] { lagom::spawn([] {}).join(); }) == lagom::errc::no_runtime);
  CHECK(error_of([] { lagom::fiber f([] {}); }) == lagom::errc::no_runtime);
  CHECK(error_of([] { lagom::this_fiber::get_attributes(); }) == lagom::errc::no_runtime);
  CHECK_FALSE(lagom::this_fiber::stop_requested());
  CHECK_FALSE(lagom::this_fiber::get_stop_token().stop_possible());
  lagom::this_fiber::checkpoint();
  lagom::this_fiber::yield();

  for_each_worker_count([](lagom::runtime& rt) {
    rt.run([&] {
      CHECK(lagom::runtime::current() == &rt);
      CHECK(lagom::this_fiber::worker_index() < rt.workers());
      CHECK(lagom::this_fiber::get_id() != lagom::fiber::id());
    });
  });
}

TEST_CASE("arguments are decayed and moved, and destroyed before join returns") {
  for_each_worker_count([](lagom::runtime& rt) {
    const auto token = std::make_shared<int>(5);
    int seen = 0;
    rt.spawn([](const std::shared_ptr<int>& p, int plus, int& out) { out = *p + plus; }, token, 1, std::ref(seen)).join();
    CHECK(seen == 6);
    CHECK(token.use_count() == 1);

    // A task that is too large for the usual room, and one that wants to be aligned.
    std::array<char, 100'000> large{};
    large.back() = 'x';
    char last = 0;
    rt.spawn([large, &last] { last = large.back(); }).join();
    CHECK(last == 'x');
    struct alignas(64) aligned {
      char c = 'a';
    };
    bool on_its_place = false;
    rt.spawn([a = aligned{}, &on_its_place] { on_its_place = reinterpret_cast<std::uintptr_t>(&a) % 64 == 0; }).join();
    CHECK(on_its_place);
  });
}

TEST_CASE("a task whose copy throws leaves nothing behind") {
  struct refuses {
    refuses() = default;
    refuses(const refuses&) { throw std::runtime_error("copied"); }
    void operator()() const {}
  };
  for_each_worker_count([](lagom::runtime& rt) {
    const refuses f;
    for (int i = 0; i < 100; ++i) CHECK_THROWS_WITH(rt.spawn(f), "copied");
    rt.run([&] {
      for (int i = 0; i < 100; ++i) CHECK_THROWS_WITH(lagom::spawn(f), "copied");
    });
    CHECK(rt.run([] { return 1; }) == 1);
  });
}

TEST_CASE("fibers spawn fibers, threads spawn fibers, all are run once") {
  for_each_worker_count([](lagom::runtime& rt) {
    std::atomic<long> ran{0};
    const long each = rounds(2000);
    const auto tree = [&](auto& self, int depth) -> void {
      ++ran;
      if (depth == 0) return;
      lagom::fiber left = lagom::spawn([&] { self(self, depth - 1); });
      lagom::fiber right = lagom::spawn([&] { self(self, depth - 1); });
      left.join();
      right.join();
    };
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        for (long i = 0; i < each; ++i) {
          if (i % 3 == 0) {
            rt.spawn_detached([&] { ++ran; });
          } else if (i % 3 == 1) {
            if (!rt.post([&] { ++ran; })) return;
          } else {
            rt.spawn([&] { ++ran; }).join();
          }
        }
      });
    }
    rt.run([&] { tree(tree, 8); });
    for (std::thread& t : threads) t.join();
    CHECK(rt.drain_for(limit(10s)));
    CHECK(ran == 3 * each + 511);
  });
}

TEST_CASE("several threads run at once") {
  for_each_worker_count([](lagom::runtime& rt) {
    std::vector<std::thread> threads;
    std::atomic<int> right{0};
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 50; ++i) right += rt.run([&] { return t * 100 + i; }) == t * 100 + i;
      });
    }
    for (std::thread& t : threads) t.join();
    CHECK(right == 200);
  });
}

TEST_CASE("several runtimes live side by side and spawn on each other") {
  const leak_check leaks;
  {
    lagom::runtime a({.workers = 2});
    auto b = std::make_unique<lagom::runtime>(lagom::runtime_options{.workers = 1});
    lagom::channel<int> there(1), back(1);
    lagom::runtime* ran_on = nullptr;
    a.run([&] {
      lagom::fiber echo = b->spawn([&] {
        ran_on = lagom::runtime::current();
        for (const int v : there) back.send(v + 1);
      });
      int v = 0;
      for (int i = 0; i < 1000; ++i) {
        there.send(v);
        back.receive(v);
      }
      CHECK(v == 1000);
      there.close();
      echo.join();
    });
    CHECK(ran_on == b.get());
    b.reset();
    CHECK(a.run([] { return 3; }) == 3);
  }
  leaks.check();
}

TEST_CASE("runtimes start and end, with and without work") {
  const leak_check leaks;
  for (int i = 0; i < rounds(200); ++i) {
    lagom::runtime rt({.workers = 1u + static_cast<unsigned>(i) % 4});
    if (i % 2 == 0) rt.spawn_detached([] { lagom::this_fiber::yield(); });
  }
  leaks.check();
}

TEST_CASE("the callbacks of workers run once on each worker's thread") {
  for (const unsigned workers : {1u, 4u}) {
    std::atomic<unsigned> started{0}, stopped{0};
    std::atomic<bool> on_a_fiber{false};
    {
      lagom::runtime_options options;
      options.workers = workers;
      options.on_worker_start = [&](unsigned i) {
        started |= 1u << i;
        if (lagom::runtime::current()) on_a_fiber = true;
      };
      options.on_worker_stop = [&](unsigned i) { stopped |= 1u << i; };
      lagom::runtime rt(options);
      rt.run([] {});
      CHECK(stopped == 0);
    }
    CHECK(started == (1u << workers) - 1);
    CHECK(stopped == (1u << workers) - 1);
    CHECK_FALSE(on_a_fiber);
  }
}
