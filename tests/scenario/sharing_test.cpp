// SPDX-License-Identifier: BSL-1.0
// Fibers that give way all the time (by yield, by waiting for each other, by ending) beside one that never does.
#include "scenario.hpp"

using namespace lagom::tests;

TEST_CASE("13a: one that only yields leaves a burner its half") {
  lagom::runtime rt(scenario_options(1));
  contest all(rt);
  all.start({.name = "yielder"}, [&](contestant&) {
    while (!all.is_over()) lagom::this_fiber::yield();
  });
  const contestant& burner = all.burner();
  all.measure(window(1s, 2s));
  CHECK(burner.share >= 45);
}

TEST_CASE("13b: pure yielders on every worker do not keep a newcomer out") {
  for (const unsigned workers : {1u, 2u}) {
    INFO("workers: ", workers);
    lagom::runtime rt(scenario_options(workers));
    contest all(rt);
    for (unsigned i = 0; i < workers; ++i) {
      all.start({}, [&](contestant&) {
        while (!all.is_over()) lagom::this_fiber::yield();
      });
    }
    std::vector<double> delays;
    for (int i = 0; i < 100; ++i) {
      clock::time_point started;
      const auto spawned = clock::now();
      rt.spawn([&] { started = clock::now(); }).join();
      delays.push_back(milliseconds(started - spawned));
      std::this_thread::sleep_for(500us);
    }
    CHECK(percentile(delays, 98) < milliseconds(limit(50ms)));
    CHECK(percentile(delays, 100) < milliseconds(limit(500ms)));
  }
}

TEST_CASE("13c: who has yielded for long is neither rich nor poor when it begins to compute") {
  lagom::runtime rt(scenario_options(1));
  contest all(rt);
  std::atomic<bool> begin{false};
  const contestant& yielder = all.start({}, [&](contestant& c) {
    while (!begin && !all.is_over()) lagom::this_fiber::yield();
    all.burn(c);
  });
  const contestant& burner = all.burner();
  std::this_thread::sleep_for(window(1s, 10s));
  begin = true;
  all.measure(500ms);
  CHECK(yielder.share >= 40);
  CHECK(burner.share >= 40);
}

TEST_CASE("13d: one yielder does not wake workers that have nothing to do") {
  lagom::runtime rt(scenario_options(4));
  contest all(rt);
  all.start({}, [&](contestant&) {
    while (!all.is_over()) lagom::this_fiber::yield();
  });
  std::this_thread::sleep_for(50ms);
  const auto wakeups = [&] {
    std::vector<std::uint64_t> each;
    for (const lagom::worker_stats& w : rt.stats().workers) each.push_back(w.wakeups);
    return each;
  };
  const auto before = wakeups();
  const auto begun = clock::now();
  std::this_thread::sleep_for(window(1s, 2s));
  const auto after = wakeups();
  const double seconds = std::chrono::duration<double>(clock::now() - begun).count();
  double sum = 0;  // the worker with the yielder does not sleep
  for (std::size_t i = 0; i < after.size(); ++i) sum += static_cast<double>(after[i] - before[i]);
  CHECK(sum / seconds < 100);
}

TEST_CASE("14a: two that play ping-pong leave a burner its part") {
  lagom::runtime rt(scenario_options(1));
  lagom::channel<int> ping(1), pong(1);
  contest all(rt);
  all.start({.name = "a"}, [&](contestant&) {
    int ball = 0;
    while (!all.is_over() && ping.send(ball) == lagom::channel_status::ok && pong.receive(ball) == lagom::channel_status::ok) {
    }
  });
  all.start({.name = "b"}, [&](contestant&) {
    int ball = 0;
    while (!all.is_over() && ping.receive(ball) == lagom::channel_status::ok && pong.send(ball + 1) == lagom::channel_status::ok) {
    }
  });
  const contestant& burner = all.burner();
  all.measure(window(1s, 10s));
  CHECK(burner.share >= 30);
}

namespace {

void link_of_chain(const contest& all, std::atomic<long>& links, std::atomic<bool>& ended) {
  compute(20us);
  ++links;
  if (all.is_over()) {
    ended = true;
    return;
  }
  lagom::spawn_detached([&] { link_of_chain(all, links, ended); });
}

}  // namespace

TEST_CASE("14b: a chain of fibers that end by spawning their successor leaves a burner its part") {
  lagom::runtime rt(scenario_options(1));
  std::atomic<long> links{0};
  std::atomic<bool> ended{false};
  {
    contest all(rt);
    const contestant& burner = all.burner();
    std::this_thread::sleep_for(20ms);
    rt.spawn_detached([&] { link_of_chain(all, links, ended); });
    const auto begun = clock::now();
    all.measure(window(1s, 10s));
    // The chain is nobody's contestant: against the clock. What the OS takes from both counts against the burner.
    const double whole = std::chrono::duration<double>(clock::now() - begun).count();
    CHECK(100 * burner.seconds / whole >= 40);
    CHECK(links > 100);
    all.finish();
    CHECK(becomes_true([&] { return ended.load(); }, limit(5s)));
  }
}

TEST_CASE("14c: fibers from outside get their turn among many local ones") {
  lagom::runtime rt(scenario_options(2));
  contest all(rt);
  for (int i = 0; i < 100; ++i) {
    all.start({}, [&](contestant&) {
      while (!all.is_over()) {
        all.work(1ms);
        lagom::this_fiber::yield();
      }
    });
  }
  std::vector<double> delays;
  auto due = clock::now();
  const long probes = count_of(200, 1000);
  for (long i = 0; i < probes; ++i) {
    std::this_thread::sleep_until(due += 20ms);
    std::array<std::chrono::nanoseconds, 8> taken{};  // on a very busy machine there may be a substitute worker
    for (unsigned w = 0; w < taken.size(); ++w) taken[w] = all.taken_from(w);
    std::chrono::nanoseconds delay{0};
    const auto spawned = clock::now();
    rt.spawn([&] {
        const unsigned here = lagom::this_fiber::worker_index();
        delay = clock::now() - spawned - (all.taken_from(here) - taken[here % taken.size()]);
      }).join();
    delays.push_back(milliseconds(delay));
  }
  CHECK(percentile(delays, 99) < milliseconds(limit(80ms)));
}
