// SPDX-License-Identifier: BSL-1.0
// Exceptions belong to the fiber: fibers that wait inside their handlers and during unwinding never meet each other's.
#include <exception>
#include <mutex>
#include <random>

#include "scenario.hpp"

using namespace lagom::tests;

namespace {

struct numbered {
  int fiber;
  int depth;
};

struct stage {
  lagom::mutex contended;
  verdict v;
};

void wait_in_handler(stage& s, std::minstd_rand& random) {
  if (random() % 2 == 0) {
    lagom::this_fiber::sleep_for(std::chrono::microseconds(random() % 201));
  } else {
    const std::lock_guard hold(s.contended);
    lagom::this_fiber::yield();
  }
}

void throw_nested(stage& s, std::minstd_rand& random, int fiber, int depth) {
  try {
    throw numbered{fiber, depth};
  } catch (const numbered& mine) {
    wait_in_handler(s, random);
    if (depth > 0) {
      try {
        throw_nested(s, random, fiber, depth - 1);
      } catch (const numbered& inner) {
        s.v.expect(inner.fiber == fiber && inner.depth == depth - 1, "the inner exception is another's");
      }
    }
    s.v.expect(mine.fiber == fiber && mine.depth == depth, "the caught exception changed during a wait");
    s.v.expect(std::uncaught_exceptions() == 0, "uncaught_exceptions() in a handler");
    throw;
  }
}

}  // namespace

TEST_CASE("6: exceptions keep their identity across waits in handlers") {
  CHECK(std::uncaught_exceptions() == 0);
  for (const unsigned workers : {1u, 2u}) {
    lagom::runtime rt(scenario_options(workers));
    stage s;
    const long each = count_of(20'000, 100'000) / 32;
    std::vector<lagom::fiber> fibers;
    for (int i = 0; i < 32; ++i) {
      fibers.push_back(rt.spawn([&s, each, i] {
        std::minstd_rand random(static_cast<unsigned>(i) + 1);
        for (long turn = 0; turn < each; ++turn) {
          try {
            throw_nested(s, random, i, 2);
            s.v.expect(false, "nothing was thrown");
          } catch (const numbered& e) {
            s.v.expect(e.fiber == i && e.depth == 2, "the exception that came out is another's");
          }
          s.v.expect(std::uncaught_exceptions() == 0, "uncaught_exceptions() between rounds");
        }
      }));
    }
    for (lagom::fiber& f : fibers) f.join();
    CHECK(std::uncaught_exceptions() == 0);
  }
}

TEST_CASE("6: what leaves the entry arrives once, and the others go on") {
  std::atomic<int> uncaught{0};
  lagom::runtime_options options = scenario_options(2);
  options.on_uncaught = [&](const lagom::attributes&, std::exception_ptr e) {
    try {
      std::rethrow_exception(e);
    } catch (const numbered& left) {
      uncaught += left.fiber;
    }
  };
  lagom::runtime rt(options);
  contest all(rt);
  const contestant& other = all.burner();
  for (int i = 1; i <= 100; ++i) {
    lagom::fiber joined = rt.spawn([i] { throw numbered{i, 0}; });
    int caught = 0;
    try {
      joined.join();
    } catch (const numbered& e) {
      caught = e.fiber;
    }
    CHECK(caught == i);
    CHECK_FALSE(joined.joinable());
    rt.spawn_detached([i] { throw numbered{i, 0}; });
  }
  CHECK(becomes_true([&] { return uncaught == 5050; }, limit(5s)));
  CHECK(rt.stats().uncaught == 100);
  all.measure(20ms);
  CHECK(other.seconds > 0);
  CHECK(std::uncaught_exceptions() == 0);
}
