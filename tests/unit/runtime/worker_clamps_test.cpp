// SPDX-License-Identifier: BSL-1.0
// What the workers' clamps are while fibers with clamps come, go, sleep and change; and that they can be forwarded.
#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "support/fixture.hpp"

using namespace lagom::tests;

namespace {

lagom::runtime_options workers(unsigned n) {
  lagom::runtime_options options;
  options.workers = n;
  options.topology = "synthetic:pack:1 core:4 pu:1";
  options.pin_mode = lagom::pin::none;
  return options;
}

struct range {
  int min, max;
};
range clamps_of(lagom::runtime& rt, unsigned worker = 0) {
  const lagom::worker_stats w = rt.stats().workers.at(worker);
  return {w.util_min, w.util_max};
}
bool are(range c, int min, int max) { return c.min == min && c.max == max; }

}  // namespace

TEST_CASE("clamps: a worker's are those of its runnable fibers, and none when nobody runs") {
  lagom::runtime rt(workers(1));
  CHECK(are(clamps_of(rt), 0, 1024));
  lagom::attributes boosted;
  boosted.util_min = 800;
  lagom::attributes capped;
  capped.util_max = 300;
  rt.spawn(capped, [&] {
    CHECK(are(clamps_of(rt), 0, 300));
    lagom::fiber other = lagom::spawn(boosted, [&] {
      CHECK(are(clamps_of(rt), 800, 1024));
      lagom::this_fiber::change({.util_min = 200, .util_max = 250});
      CHECK(are(clamps_of(rt), 200, 250));  // the first one waits for it, so it does not count
      lagom::this_fiber::change({.reset_util_min = true, .reset_util_max = true});
      CHECK(are(clamps_of(rt), 0, 1024));
    });
    CHECK(are(clamps_of(rt), 800, 1024));
    other.change({.util_min = 100});  // queued
    CHECK(are(clamps_of(rt), 100, 1024));
    other.change({.util_min = 800});
    other.join();
    CHECK(are(clamps_of(rt), 0, 300));
    lagom::fiber plain = lagom::spawn([&] { CHECK(are(clamps_of(rt), 0, 1024)); });  // alone while the other joins it
    CHECK(are(clamps_of(rt), 0, 1024));                                              // it lifts the cap
    plain.join();
    CHECK(are(clamps_of(rt), 0, 300));
    lagom::this_fiber::set_attributes({});
    CHECK(are(clamps_of(rt), 0, 1024));
  }).join();
  CHECK(becomes_true([&] { return are(clamps_of(rt), 0, 1024); }, limit(5s)));
}

TEST_CASE("clamps: a sleeper does not count, though it stays queued for its debt") {
  lagom::runtime_options options = workers(1);
  options.features = lagom::features::parse("delay_dequeue");
  lagom::runtime rt(options);
  rt.run([&] {
    lagom::attributes a;
    a.util_min = 700;
    std::atomic<int> turns{0};
    lagom::fiber f = lagom::spawn(a, [&] {
      for (int i = 0; i < 20; ++i) {
        const auto until = clock::now() + 200us;  // makes a debt
        while (clock::now() < until) {
        }
        CHECK(clamps_of(rt).min == 700);
        ++turns;
        lagom::this_fiber::sleep_for(300us);
      }
    });
    for (int seen = 0; seen < 20;) {
      lagom::this_fiber::yield();
      const int now = turns;
      if (now == seen) continue;
      seen = now;
      if (f.stats().state == lagom::fiber_state::parked) CHECK(clamps_of(rt).min == 0);
    }
    f.join();
    CHECK(are(clamps_of(rt), 0, 1024));
  });
}

TEST_CASE("clamps: the first clamp of a runtime comes while fibers are queued, and workers are added later") {
  lagom::runtime rt(workers(1));
  std::atomic<bool> over{false};
  std::vector<lagom::fiber> plain;
  for (int i = 0; i < 8; ++i) {
    plain.push_back(rt.spawn([&] {
      while (!over) lagom::this_fiber::yield();
    }));
  }
  plain[3].change({.util_min = 512});
  CHECK(becomes_true([&] { return clamps_of(rt).min == 512; }, limit(5s)));
  plain[3].change({.util_min = 256});
  CHECK(becomes_true([&] { return clamps_of(rt).min == 256; }, limit(5s)));
  rt.set_workers(3);
  lagom::attributes a;
  a.util_min = 900;
  for (int i = 0; i < 8; ++i) {
    plain.push_back(rt.spawn(a, [&] {
      while (!over) lagom::this_fiber::yield();
    }));
  }
  CHECK(becomes_true([&] { return clamps_of(rt, 0).min == 900 || clamps_of(rt, 1).min == 900; }, limit(5s)));
  over = true;
  for (lagom::fiber& f : plain) f.join();
  for (unsigned w = 0; w < 3; ++w) CHECK(becomes_true([&] { return are(clamps_of(rt, w), 0, 1024); }, limit(5s)));
}

TEST_CASE("clamps: forwarding works or says once that it does not, and disturbs nobody") {
  std::atomic<int> lines{0};
  lagom::runtime_options options = workers(2);
  options.forward_clamps = true;
  options.log = [&](std::string_view line) {
    if (line.find("clamps are not forwarded") != std::string_view::npos) ++lines;
  };
  for (int i = 0; i < 2; ++i) {
    lagom::runtime rt(options);
    lagom::attributes a;
    a.util_min = 700;
    std::vector<lagom::fiber> all;
    for (int k = 0; k < 4; ++k) {
      all.push_back(rt.spawn(a, [] {
        for (int n = 0; n < 20; ++n) {
          for (const auto until = clock::now() + 200us; clock::now() < until;) lagom::this_fiber::checkpoint();
          lagom::this_fiber::sleep_for(50us);
        }
      }));
    }
    for (lagom::fiber& f : all) f.join();
  }
  CHECK(lines <= 1);
}
