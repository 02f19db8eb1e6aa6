// SPDX-License-Identifier: BSL-1.0
// Which worker may run a fiber. A synthetic topology allows several workers on any machine.
#include <atomic>
#include <set>
#include <string>
#include <vector>

#include "support/fixture.hpp"

using namespace lagom::tests;

namespace {

lagom::runtime_options four_cpus(std::uint64_t chaos = 0) {
  lagom::runtime_options options;
  options.workers = 4;
  options.topology = "synthetic:pack:1 core:4 pu:1";
  options.pin_mode = lagom::pin::none;
  options.chaos_seed = chaos;
  return options;
}

// Waits in all ways and notes on which workers it finds itself.
std::set<unsigned> wander(int turns) {
  std::set<unsigned> seen;
  for (int i = 0; i < turns; ++i) {
    seen.insert(lagom::this_fiber::worker_index());
    switch (i % 3) {
      case 0: lagom::this_fiber::yield(); break;
      case 1: lagom::this_fiber::checkpoint(); break;
      default: lagom::this_fiber::sleep_for(20us);
    }
  }
  return seen;
}

}  // namespace

TEST_CASE("a fiber with an affinity runs there only, whoever spawns it and however it waits") {
  for (const std::uint64_t chaos : {0u, 5u}) {
    lagom::runtime rt(four_cpus(chaos));
    REQUIRE(rt.workers() == 4);
    verdict v;
    std::vector<lagom::fiber> fibers;
    const auto start = [&](auto&& spawn) {
      for (unsigned cpu = 0; cpu < 4; ++cpu) {
        lagom::attributes a;
        a.affinity.set(cpu);
        fibers.push_back(spawn(a, [&v, cpu] {
          // Workers are on CPUs in some order, one each.
          const std::set<unsigned> seen = wander(100);
          v.expect(seen.size() == 1, "ran on several workers, affinity to CPU " + std::to_string(cpu));
        }));
        a.affinity = lagom::cpu_set::parse("0,3");
        fibers.push_back(spawn(a, [&v] { v.expect(wander(100).size() <= 2, "ran on more than two workers"); }));
      }
    };
    start([&](const lagom::attributes& a, auto body) { return rt.spawn(a, body); });
    rt.run([&] { start([&](const lagom::attributes& a, auto body) { return lagom::spawn(a, body); }); });
    std::vector<lagom::fiber> others;
    for (int i = 0; i < 20; ++i) others.push_back(rt.spawn([] { (void)wander(100); }));
    for (lagom::fiber& f : fibers) f.join();
    for (lagom::fiber& f : others) f.join();
  }
}

TEST_CASE("different affinities are different workers") {
  lagom::runtime rt(four_cpus());
  std::set<unsigned> workers;
  for (unsigned cpu = 0; cpu < 4; ++cpu) {
    lagom::attributes a;
    a.affinity.set(cpu);
    unsigned seen = 99;
    rt.spawn(a, [&] { seen = lagom::this_fiber::worker_index(); }).join();
    workers.insert(seen);
  }
  CHECK(workers == std::set<unsigned>{0, 1, 2, 3});
}

TEST_CASE("a pinned fiber stays on the worker it starts on") {
  for (const std::uint64_t chaos : {0u, 7u}) {
    lagom::runtime rt(four_cpus(chaos));
    verdict v;
    std::vector<lagom::fiber> fibers;
    for (int i = 0; i < 40; ++i) {
      lagom::attributes a;
      a.pinned = i % 2 == 0;
      fibers.push_back(rt.spawn(a, [&v, pinned = a.pinned] {
        const std::set<unsigned> seen = wander(200);
        if (pinned) v.expect(seen.size() == 1, "a pinned fiber changed workers");
      }));
    }
    for (lagom::fiber& f : fibers) f.join();
  }
}

TEST_CASE("chaos moves what may be moved") {
  lagom::runtime rt(four_cpus(9));
  std::set<unsigned> seen;
  rt.spawn([&] { seen = wander(300); }).join();
  CHECK(seen.size() > 1);
  const auto stats = rt.stats();
  std::uint64_t switches = 0;
  for (const auto& w : stats.workers) switches += w.switches;
  CHECK(switches > 0);
}

TEST_CASE("an affinity without a worker is refused") {
  lagom::runtime rt(four_cpus());
  lagom::attributes a;
  a.affinity.set(4);
  CHECK_THROWS_AS(rt.spawn(a, [] {}).join(), std::invalid_argument);
  CHECK(rt.stats().fibers == 0);
}

TEST_CASE("work spreads to idle workers, and each fiber is counted where it went") {
  lagom::runtime rt(four_cpus());
  std::set<unsigned> seen;
  lagom::mutex m;
  rt.run([&] {
    std::vector<lagom::fiber> fibers;
    for (int i = 0; i < 64; ++i) {
      fibers.push_back(lagom::spawn([&] {
        for (const auto until = clock::now() + 3ms; clock::now() < until;) lagom::this_fiber::checkpoint();
        const std::lock_guard hold(m);
        seen.insert(lagom::this_fiber::worker_index());
      }));
    }
    for (lagom::fiber& f : fibers) f.join();
  });
  CHECK(seen.size() > 1);
  std::uint64_t migrated = 0, stolen = 0;
  for (const auto& w : rt.stats().workers) {
    migrated += w.migrations_in;
    stolen += w.steals;
  }
  CHECK(migrated > 0);
  CHECK(stolen > 0);
  CHECK(migrated >= stolen);
}
