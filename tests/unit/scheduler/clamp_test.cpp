// SPDX-License-Identifier: BSL-1.0
#include "scheduler/clamp.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

namespace lagom::test {
namespace {

using namespace scheduler;

// The runnable ones of a queue, and what should come out, by looking at everybody.
struct crowd {
  std::vector<clamp_range> runnable;
  clamp_tally tally;

  void come(clamp_range c) {
    runnable.push_back(c);
    if (!c.is_neutral()) tally.add(c);
  }
  void go(std::size_t who) {
    if (!runnable[who].is_neutral()) tally.remove(runnable[who]);
    runnable.erase(runnable.begin() + static_cast<std::ptrdiff_t>(who));
  }
  void change(std::size_t who, clamp_range to) {
    if (!runnable[who].is_neutral()) tally.remove(runnable[who]);
    runnable[who] = to;
    if (!to.is_neutral()) tally.add(to);
  }
  void check() {
    clamp_range expected = runnable.empty() ? clamp_range{} : clamp_range{0, 0};
    for (const clamp_range& c : runnable) {
      expected = {std::max(expected.min, c.min), std::max(expected.max, c.max)};
    }
    CHECK(tally.summary().among(runnable.size()) == expected);
  }
};

}  // namespace

TEST_CASE("clamps: highest of the levels") {
  const auto levels = std::make_unique<clamp_levels>();
  CHECK(levels->top() == 0);
  for (const std::uint16_t v : std::vector<std::uint16_t>{0, 63, 64, 1023, 1024, 500, 1024}) levels->add(v);
  for (const std::uint16_t expected : std::vector<std::uint16_t>{1024, 1024, 1023, 500, 64, 63, 0}) {
    CHECK(levels->top() == expected);
    levels->remove(expected);
  }
  CHECK(levels->top() == 0);
}

TEST_CASE("clamps: max 200, max 400, none and min 800 come and go in all orders") {
  const std::vector<clamp_range> all{{0, 200}, {0, 400}, {}, {800, 1024}};
  std::vector<std::size_t> coming{0, 1, 2, 3};
  do {
    std::vector<std::size_t> going{0, 1, 2, 3};
    do {
      crowd c;
      std::vector<std::size_t> who;
      for (const std::size_t i : coming) {
        c.come(all[i]);
        who.push_back(i);
        c.check();
      }
      for (const std::size_t i : going) {
        const auto at = std::find(who.begin(), who.end(), i);
        c.go(static_cast<std::size_t>(at - who.begin()));
        who.erase(at);
        c.check();
      }
      CHECK(c.tally.summary().clamped == 0);
    } while (std::next_permutation(going.begin(), going.end()));
  } while (std::next_permutation(coming.begin(), coming.end()));
}

TEST_CASE("clamps: the boost of the last boosted one ends with it, at once") {
  crowd c;
  c.come({800, 1024});
  c.come({});
  c.come({0, 1000});
  CHECK(c.tally.summary().among(3).min == 800);
  c.go(0);
  CHECK(c.tally.summary().among(2).min == 0);
}

TEST_CASE("clamps: values near each other do not hide each other") {
  // One bucket of Linux would keep 819 until the other is gone too.
  crowd c;
  c.come({819, 1024});
  c.come({616, 1024});
  CHECK(c.tally.summary().among(2).min == 819);
  c.go(0);
  CHECK(c.tally.summary().among(1).min == 616);
}

TEST_CASE("clamps: one without a cap lifts the caps of all, until it leaves") {
  crowd c;
  c.come({0, 300});
  CHECK(c.tally.summary().among(1).max == 300);
  c.come({});
  CHECK(c.tally.summary().among(2).max == 1024);
  c.go(1);
  CHECK(c.tally.summary().among(1).max == 300);
}

TEST_CASE("clamps: a random crowd against a look at everybody") {
  for (const std::uint32_t seed : {1u, 2u, 3u}) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto draw = [&](unsigned below) { return static_cast<unsigned>(random() % below); };
    const auto any_clamp = [&]() -> clamp_range {
      if (draw(4) == 0) return {};
      const auto a = static_cast<std::uint16_t>(draw(1025)), b = static_cast<std::uint16_t>(draw(4) == 0 ? a : draw(1025));
      return {std::min(a, b), std::max(a, b)};
    };
    crowd c;
    for (int i = 0; i < 20'000; ++i) {
      const unsigned size = static_cast<unsigned>(c.runnable.size());
      const unsigned what = draw(size < 40 ? 5 : 3);
      if (size == 0 || what >= 3) {
        c.come(any_clamp());
      } else if (what == 0) {
        c.change(draw(size), any_clamp());
      } else {
        c.go(draw(size));
      }
      c.check();
    }
    while (!c.runnable.empty()) c.go(0);
    CHECK(c.tally.summary().clamped == 0);
    CHECK(c.tally.summary().top_min == 0);
    CHECK(c.tally.summary().top_max == 0);
  }
}

namespace {

constexpr nanos us = 1'000, ms = 1'000'000;
constexpr clamp_range boost{800, 1024}, half_boost{400, 1024}, cap{0, 300}, neutral{};

}  // namespace

TEST_CASE("clamp forwarding: nothing is said while nobody wants anything") {
  clamp_forwarder f;
  for (nanos now = 0; now < 100 * ms; now += 50 * us) CHECK_FALSE(f.consider(neutral, now));
}

TEST_CASE("clamp forwarding: a raise must last for 100 us, a lowering for 4 ms") {
  clamp_forwarder f;
  CHECK_FALSE(f.consider(boost, 10 * ms));
  CHECK_FALSE(f.consider(boost, 10 * ms + 99 * us));
  CHECK(f.consider(boost, 10 * ms + 100 * us) == boost);
  CHECK_FALSE(f.consider(boost, 20 * ms));
  CHECK_FALSE(f.consider(neutral, 20 * ms));
  CHECK_FALSE(f.consider(neutral, 24 * ms - 1));
  CHECK(f.consider(neutral, 24 * ms) == neutral);
  CHECK(f.passed_on() == neutral);
}

TEST_CASE("clamp forwarding: a cap is a lowering, its end a raise") {
  clamp_forwarder f;
  CHECK_FALSE(f.consider(cap, 0));
  CHECK_FALSE(f.consider(cap, 1 * ms));
  CHECK(f.consider(cap, 4 * ms) == cap);
  CHECK_FALSE(f.consider(neutral, 6 * ms));
  CHECK(f.consider(neutral, 6 * ms + 100 * us) == neutral);
}

TEST_CASE("clamp forwarding: what comes and goes quickly is not passed on") {
  clamp_forwarder f;
  for (nanos now = 0; now < 50 * ms; now += 100 * us) {
    CHECK_FALSE(f.consider(boost, now));
    CHECK_FALSE(f.consider(neutral, now + 50 * us));
  }
  // And once on, short breaks do not end it.
  CHECK_FALSE(f.consider(boost, 60 * ms));
  CHECK(f.consider(boost, 61 * ms) == boost);
  for (nanos now = 62 * ms; now < 100 * ms; now += 1 * ms) {
    CHECK_FALSE(f.consider(neutral, now));
    CHECK_FALSE(f.consider(boost, now + 500 * us));
  }
}

TEST_CASE("clamp forwarding: who wants more than there is gets more, though not always the same") {
  clamp_forwarder f;
  CHECK_FALSE(f.consider(boost, 0));
  CHECK_FALSE(f.consider(half_boost, 50 * us));
  CHECK(f.consider(boost, 100 * us) == boost);
  CHECK_FALSE(f.consider(half_boost, 2 * ms));
  CHECK_FALSE(f.consider(neutral, 4 * ms));
  CHECK(f.consider(half_boost, 6 * ms) == half_boost);
}

TEST_CASE("clamp forwarding: one call in a millisecond, whatever happens") {
  clamp_forwarder f;
  std::mt19937 random(7);
  nanos last = -ms;
  int calls = 0;
  clamp_range wanted = neutral, passed = neutral;
  for (nanos now = 0; now < 2'000 * ms; now += 10 * us + static_cast<nanos>(random() % 40'000)) {
    if (random() % 50 == 0) wanted = std::vector{boost, half_boost, cap, neutral}[random() % 4];
    if (const auto sent = f.consider(wanted, now)) {
      CHECK(now - last >= ms);
      CHECK(*sent == wanted);
      CHECK(*sent != passed);
      passed = *sent;
      last = now;
      ++calls;
    }
  }
  CHECK(calls > 10);
}

}  // namespace lagom::test
