// SPDX-License-Identifier: BSL-1.0
// The number of workers changes while fibers run.
#include <doctest/doctest.h>

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/fixture.hpp"

using namespace lagom::tests;

namespace {

// Fibers that do a bit of everything until told to end; each counts its rounds.
class crowd {
 public:
  crowd(lagom::runtime& rt, int size) : rounds_(static_cast<std::size_t>(size)) {
    for (auto& mine : rounds_) {
      fibers_.push_back(rt.spawn([this, &mine] {
        while (!is_over_) {
          ++mine;
          lagom::this_fiber::yield();
          {
            const std::lock_guard hold(lock_);
            ++shared_;
          }
          if (mine % 8 == 0) lagom::this_fiber::sleep_for(100us);
        }
      }));
    }
  }
  long finish() {
    is_over_ = true;
    long sum = 0;
    for (auto& f : fibers_) f.join();
    for (auto& mine : rounds_) {
      CHECK(mine > 0);
      sum += mine;
    }
    CHECK(shared_ == sum);
    return sum;
  }

 private:
  std::atomic<bool> is_over_{false};
  lagom::mutex lock_;
  long shared_ = 0;
  std::vector<std::atomic<long>> rounds_;
  std::vector<lagom::fiber> fibers_;
};

}  // namespace

TEST_CASE("set_workers while fibers run, wait and sleep: nobody is lost") {
  const leak_check leaks;
  for (const std::uint64_t chaos : {0, 7}) {
    lagom::runtime_options options;
    options.workers = 2;
    options.chaos_seed = chaos;
    lagom::runtime rt(options);
    crowd all(rt, 40);
    for (int i = 0; i < rounds(60); ++i) {
      const unsigned wanted = 1 + static_cast<unsigned>(i * 5 % 7);
      rt.set_workers(wanted);
      CHECK(rt.workers() == wanted);
      CHECK(rt.stats().workers.size() == wanted);
      std::this_thread::sleep_for(2ms);
    }
    all.finish();
    CHECK(rt.drain_for(limit(10s)));
    CHECK(rt.stats().spawned == rt.stats().finished);
  }
}

TEST_CASE("set_workers from a fiber, down to one: its own worker may go") {
  lagom::runtime_options options;
  options.workers = 4;
  lagom::runtime rt(options);
  rt.run([&] {
    for (int i = 0; i < rounds(50); ++i) {
      rt.set_workers(1 + static_cast<unsigned>(i % 4));
      lagom::this_fiber::yield();
      if (rt.workers() == 1) CHECK(lagom::this_fiber::worker_index() == 0);
    }
  });
}

TEST_CASE("after set_workers(1) everybody who may run elsewhere does, with what they are owed") {
  lagom::runtime_options options;
  options.workers = 4;
  lagom::runtime rt(options);
  std::atomic<bool> is_over{false};
  std::atomic<int> elsewhere{0};
  std::vector<lagom::fiber> all;
  for (int i = 0; i < 8; ++i) {
    all.push_back(rt.spawn([&] {
      while (!is_over) {
        lagom::this_fiber::checkpoint();
        if (rt.workers() == 1 && lagom::this_fiber::worker_index() != 0) ++elsewhere;
      }
    }));
  }
  std::this_thread::sleep_for(20ms);
  rt.set_workers(1);
  // The system may take its time before it lets the last of the workers see it.
  CHECK(becomes_true(
      [&] {
        elsewhere = 0;
        std::this_thread::sleep_for(20ms);
        return elsewhere == 0;
      },
      limit(5s)));
  is_over = true;
  all.clear();
}

TEST_CASE("who is bound to a worker that is not wanted any more is still served there") {
  lagom::runtime_options options;
  options.workers = 2;
  options.topology = "synthetic:core:2 pu:1";
  options.pin_mode = lagom::pin::none;
  lagom::runtime rt(options);
  lagom::cpu_set second;
  second.set(1);
  std::atomic<int> rounds_done{0};
  std::atomic<bool> is_over{false};
  lagom::fiber bound = rt.spawn({.affinity = second}, [&] {
    while (!is_over) {
      lagom::this_fiber::sleep_for(100us);
      CHECK(lagom::this_fiber::worker_index() == 1);
      ++rounds_done;
    }
  });
  becomes_true([&] { return rounds_done > 2; }, limit(10s));
  rt.set_workers(1);
  const int before = rounds_done;
  becomes_true([&] { return rounds_done > before + 5; }, limit(10s));
  CHECK(rounds_done > before + 5);
  is_over = true;
  bound.join();
}

TEST_CASE("set_workers refuses what cannot be, and changes nothing then") {
  lagom::runtime_options options;
  options.workers = 2;
  lagom::runtime rt(options);
  CHECK_THROWS_WITH_AS(rt.set_workers(0), doctest::Contains("1 to 16 is allowed"), std::invalid_argument);
  CHECK_THROWS_AS(rt.set_workers(1'000'000), std::invalid_argument);
  CHECK(rt.workers() == 2);
}

TEST_CASE("the number of workers follows the quota while the runtime runs, unless it was said") {
  std::string root = (std::filesystem::temp_directory_path() / "lagom-workers-XXXXXX").string();
  REQUIRE(::mkdtemp(root.data()) != nullptr);
  const auto say = [&](const char* limit) { std::ofstream(root + "/cpu.max") << limit << " 100000\n"; };
  say("100000");
  lagom::runtime_options options;
  options.cgroup_root = root;
  options.topology = "synthetic:core:4 pu:1";
  options.pin_mode = lagom::pin::none;
  lagom::runtime rt(options);
  CHECK(rt.workers() == 1);
  std::atomic<bool> is_over{false};
  lagom::fiber awake = rt.spawn([&] {  // the monitor looks while somebody is awake
    while (!is_over) lagom::this_fiber::sleep_for(1ms);
  });
  say("150000");
  becomes_true([&] { return rt.workers() == 2; }, limit(10s));
  CHECK(rt.workers() == 2);
  say("50000");
  becomes_true([&] { return rt.workers() == 1; }, limit(10s));
  CHECK(rt.workers() == 1);
  rt.set_workers(3);
  say("max");
  std::this_thread::sleep_for(1200ms);
  CHECK(rt.workers() == 3);
  is_over = true;
  awake.join();
  std::filesystem::remove_all(root);
}
