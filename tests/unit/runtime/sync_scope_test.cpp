// SPDX-License-Identifier: BSL-1.0
#include <lagom/scope.hpp>

#include <memory>
#include <stdexcept>

#include "sync_crowd.hpp"

using namespace sync_test;

namespace {

struct problem : std::runtime_error {
  explicit problem(int n) : runtime_error("problem"), number(n) {}
  int number;
};

// Runs the body as a fiber, on 1, 2 and 4 workers.
template <class F>
void on_fibers(F body) {
  for (unsigned workers : {1u, 2u, 4u}) {
    lagom::runtime_options options;
    options.workers = workers;
    lagom::runtime rt(options);
    rt.run(body);
  }
}

void sleep_long() { nap(1h); }

bool is_stopped(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::system_error& e) {
    return e.code() == lagom::errc::stopped;
  }
  return false;
}

}  // namespace

TEST_CASE("scope: everything has ended, and is destroyed, when it has been joined") {
  on_fibers([] {
    std::atomic<int> ended{0};
    auto shared = std::make_shared<int>(1);
    lagom::scope s;
    for (int i = 0; i < 100; ++i) {
      s.spawn([&, shared, i] {
        if (i % 10 == 0) nap(100us);
        if (i % 20 == 0) s.spawn([&, shared] { ++ended; });  // from inside as well
        ++ended;
      });
    }
    s.spawn([&](std::unique_ptr<int> v, int more) { ended += *v + more; }, std::make_unique<int>(2), 3);
    lagom::attributes attrs;
    attrs.name = "child";
    s.spawn(attrs, [&](std::stop_token t) { ended += t.stop_possible() ? 1 : 100; });
    s.join();
    CHECK(ended == 111);
    CHECK(s.size() == 0);
    CHECK(shared.use_count() == 1);
    s.join();  // again: nothing to wait for
    s.spawn([&] { ++ended; });
    s.join();
    CHECK(ended == 112);
  });
}

TEST_CASE("scope: its end waits without cancelling") {
  on_fibers([] {
    std::atomic<int> ended{0};
    {
      lagom::scope s;
      for (int i = 0; i < 10; ++i) {
        s.spawn([&] {
          nap(200us);
          ++ended;
        });
      }
    }
    CHECK(ended == 10);
  });
}

TEST_CASE("scope: an exception in the block cancels what is in it") {
  on_fibers([] {
    std::atomic<int> stopped{0};
    auto throwing = [&] {
      lagom::scope s;
      for (int i = 0; i < 5; ++i) s.spawn([&] { stopped += is_stopped(sleep_long); });
      lagom::this_fiber::yield();
      throw problem(1);
    };
    CHECK_THROWS_AS(throwing(), problem);
    CHECK(stopped == 5);
  });
}

TEST_CASE("scope, cancel_all: the first exception stops the others and is rethrown once") {
  on_fibers([] {
    std::atomic<int> stopped{0};
    lagom::scope s;
    for (int i = 0; i < 20; ++i) {
      s.spawn([&] {
        if (is_stopped(sleep_long)) {
          ++stopped;
          throw std::system_error(lagom::errc::stopped);  // obeying is no error
        }
      });
    }
    s.spawn([] {
      nap(100us);
      throw problem(7);
    });
    int number = 0;
    try {
      s.join();
    } catch (const problem& p) {
      number = p.number;
    }
    CHECK(number == 7);
    CHECK(stopped == 20);
    CHECK(s.stop_requested());
    s.join();  // once
    CHECK_THROWS_AS(s.spawn([] {}), std::system_error);
  });
}

TEST_CASE("scope, collect: the others go on, and nothing is lost") {
  on_fibers([] {
    std::atomic<int> ended{0};
    lagom::scope s(lagom::on_error::collect);
    for (int i = 0; i < 20; ++i) {
      s.spawn([&, i] {
        if (i % 2) nap(50us);
        if (i % 4 == 0) throw problem(i);
        ++ended;
      });
    }
    CHECK_THROWS_AS(s.join(), problem);
    CHECK(ended == 15);
    int sum = 0;
    for (const auto& error : s.errors()) {
      try {
        std::rethrow_exception(error);
      } catch (const problem& p) {
        sum += p.number;
      }
    }
    CHECK(s.errors().size() == 5);
    CHECK(sum == 0 + 4 + 8 + 12 + 16);
  });
}

TEST_CASE("scope, call: the function hears of each") {
  on_fibers([] {
    std::atomic<int> heard{0}, ended{0};
    lagom::scope s(lagom::on_error::call, [&](std::exception_ptr error) {
      try {
        std::rethrow_exception(error);
      } catch (const problem& p) {
        heard += p.number;
      }
    });
    for (int i = 1; i <= 3; ++i) s.spawn([i] { throw problem(i); });
    s.spawn([&] {
      nap(200us);
      ++ended;
    });
    s.join();
    CHECK(heard == 6);
    CHECK(ended == 1);
    auto without_function = [] { lagom::scope without(lagom::on_error::call); };
    CHECK_THROWS_AS(without_function(), std::invalid_argument);
  });
}

TEST_CASE("scope: async puts the exception into the future") {
  on_fibers([] {
    lagom::scope s;
    auto good = s.async([](int a) { return a + 1; }, 1);
    auto bad = s.async([]() -> int { throw problem(3); });
    s.join();
    CHECK(good.get() == 2);
    CHECK_THROWS_AS((void)bad.get(), problem);
    CHECK_FALSE(s.stop_requested());
  });
}

TEST_CASE("scope: join_for, request_stop, size") {
  on_fibers([] {
    lagom::scope s;
    std::atomic<int> stopped{0};
    for (int i = 0; i < 3; ++i) s.spawn([&] { stopped += is_stopped(sleep_long); });
    CHECK_FALSE(s.join_for(1ms));
    CHECK_FALSE(s.join_for(0s));
    CHECK(s.size() == 3);
    s.request_stop();
    s.request_stop();
    CHECK(s.join_for(1h));
    CHECK(stopped == 3);
    CHECK(s.size() == 0);
    CHECK(is_stopped([&] { s.spawn([] {}); }));
  });
}

TEST_CASE("scope: a stop of the fiber that joins is passed on") {
  for (unsigned workers : {1u, 2u}) {
    lagom::runtime_options options;
    options.workers = workers;
    lagom::runtime rt(options);
    std::atomic<int> stopped{0}, thrown{0};
    std::atomic<bool> started{false};
    lagom::fiber parent = rt.spawn([&] {
      lagom::scope s;
      for (int i = 0; i < 3; ++i) s.spawn([&] { stopped += is_stopped(sleep_long); });
      started = true;
      thrown += is_stopped([&] { s.join(); });
      CHECK(s.size() == 0);
    });
    while (!started) std::this_thread::yield();
    parent.request_stop();
    parent.join();
    CHECK(stopped == 3);
    CHECK(thrown == 1);
  }
}

TEST_CASE("scope: an exception that nobody joins goes to on_uncaught") {
  std::atomic<int> uncaught{0};
  lagom::runtime_options options;
  options.workers = 1;
  options.on_uncaught = [&](const lagom::attributes&, std::exception_ptr) { ++uncaught; };
  {
    lagom::runtime rt(options);
    rt.run([] {
      lagom::scope s;
      s.spawn([] { throw problem(1); });
    });
    CHECK(rt.drain_for(10s));
  }
  CHECK(uncaught == 1);
}

TEST_CASE("scope: spawning and stopping from all sides") {
  on_fibers([] {
    for (int round = 0; round < rounds(200); ++round) {
      lagom::scope s;
      std::atomic<int> spawned{0}, ended{0};
      std::function<void(int)> grow = [&](int depth) {
        for (int i = 0; i < 3 && depth > 0; ++i) {
          try {
            s.spawn([&, depth] {
              grow(depth - 1);
              if (depth % 2) lagom::this_fiber::yield();
              ++ended;
            });
            ++spawned;
          } catch (const std::system_error&) {
            return;  // stopped
          }
        }
      };
      s.spawn([&] { grow(3); });
      s.spawn([&] {
        lagom::this_fiber::yield();
        s.request_stop();
      });
      s.join();
      REQUIRE(spawned == ended);
    }
  });
}

TEST_CASE("scope: needs a runtime to spawn") {
  lagom::scope s;
  CHECK_THROWS_AS(s.spawn([] {}), std::system_error);
  s.join();
  CHECK(s.size() == 0);
}
