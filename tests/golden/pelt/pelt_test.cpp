// SPDX-License-Identifier: BSL-1.0
// Linux's load tracking as an exact series, and how far the lazy form is from it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "scheduler/utilization.hpp"

using namespace lagom::scheduler;

namespace {

const nlohmann::json& golden() {
  static const nlohmann::json all = [] {
    std::ifstream in(std::string(LAGOM_PELT_GOLDEN));
    return nlohmann::json::parse(in);
  }();
  return all;
}

constexpr std::uint64_t sum_max = 47742, unit_bits = 10, units = 1024;

// The series as Linux computes it, one signal: 1024 units of 1024 ns are a period.
struct exact {
  nanos last = 0;
  std::uint64_t offset = 0, sum = 0, average = 0;

  void update(nanos now, bool is_running) {
    std::uint64_t delta = static_cast<std::uint64_t>(now - last) >> unit_bits;
    if (delta == 0) return;
    last += static_cast<nanos>(delta << unit_bits);
    const std::uint64_t all = delta + offset, periods = all / units;
    std::uint64_t gained = delta;
    if (periods != 0) {
      const auto n = static_cast<std::uint32_t>(periods);
      sum = decayed(sum, n);
      gained = decayed(units - offset, n) + (sum_max - decayed(sum_max, n) - units) + all % units;
      offset = all % units;
    } else {
      offset = all;
    }
    if (is_running) sum += gained << 10;
    if (periods != 0) average = sum / (sum_max - units + offset);
  }
};

struct deviation {
  unsigned worst = 0;
};

deviation compare(nanos run, nanos rest, nanos fold_every) {
  exact e;
  utilization lazy;
  deviation d;
  nanos now = 0, service = 0, next_fold = fold_every;
  const auto fold_if_due = [&] {
    if (now < next_fold) return false;
    lazy.fold(now, service);
    return true;
  };
  while (now < 600'000'000) {
    now += run;
    service += run;
    e.update(now, true);
    static_cast<void>(fold_if_due());
    now += rest;
    e.update(now, false);
    if (fold_if_due()) {
      next_fold = now + fold_every;
      const auto a = static_cast<int>(e.average), b = static_cast<int>(lazy.value());
      if (now > 300'000'000) d.worst = std::max(d.worst, static_cast<unsigned>(std::abs(a - b)));
    }
  }
  return d;
}

}  // namespace

TEST_CASE("the decay is Linux's, to the last bit") {
  for (const auto& row : golden().at("decay")) {
    CHECK(decayed(row[0].get<std::uint64_t>(), row[1].get<std::uint32_t>()) == row[2].get<std::uint64_t>());
  }
}

TEST_CASE("the exact series used below is the golden one") {
  for (const auto& row : golden().at("ramp_from_zero_always_running").at("rows")) {
    exact e;
    e.update(row[0].get<nanos>() << utilization::period_bits, true);
    CHECK(e.average == row[1].get<std::uint64_t>());
    CHECK(e.sum == row[4].get<std::uint64_t>());
  }
  for (const auto& pattern : golden().at("periodic")) {
    exact e;
    nanos now = 0;
    std::uint64_t at_sleep = 0;
    while (now < 500'000'000) {
      e.update(now += pattern.at("run_ns").get<nanos>(), true);
      at_sleep = e.average;
      e.update(now += pattern.at("idle_ns").get<nanos>(), false);
    }
    CHECK(at_sleep == pattern.at("last_sleep")[0].get<std::uint64_t>());
    CHECK(e.average == pattern.at("last_wake")[0].get<std::uint64_t>());
  }
}

TEST_CASE("the lazy form, to the last bit") {
  utilization u;
  nanos service = 0;
  for (const auto& row : golden().at("lazy_form").at("rows")) {
    service += 500'000;
    u.fold(row[0].get<nanos>() * 2 << utilization::period_bits, service);
    CHECK(u.value() == row[1].get<unsigned>());
    CHECK(u.raw() == row[2].get<std::uint32_t>());
  }
}

TEST_CASE("the lazy form is near the exact one") {
  struct pattern {
    nanos run, rest;
  };
  const pattern short_ones[] = {{1'000, 1'000}, {1'000, 9'000}, {16'000, 48'000}, {20'000, 80'000}, {200'000, 800'000}};
  const pattern long_ones[] = {{1'000'000, 9'000'000}, {5'000'000, 5'000'000}, {2'500'000, 7'500'000}, {8'000'000, 24'000'000}};
  // Folded when it stops or starts running, at least a period apart: what the runtime does.
  for (const pattern& p : short_ones) CHECK(compare(p.run, p.rest, 1 << 20).worst <= 10);
  for (const pattern& p : long_ones) CHECK(compare(p.run, p.rest, 1 << 20).worst <= 10);
  // Folded less often: even then while the pattern is finer than the folds, or as coarse.
  for (const pattern& p : short_ones) {
    CHECK(compare(p.run, p.rest, 4'000'000).worst <= 10);
    CHECK(compare(p.run, p.rest, 16'000'000).worst <= 28);
  }
  for (const pattern& p : std::span(long_ones).first(2)) {
    CHECK(compare(p.run, p.rest, 4'000'000).worst <= 10);
    CHECK(compare(p.run, p.rest, 16'000'000).worst <= 28);
  }
}

TEST_CASE("who always runs approaches all, who sleeps forgets") {
  utilization u;
  nanos now = 0;
  for (const auto& row : golden().at("ramp_from_zero_always_running").at("rows")) {
    now = row[0].get<nanos>() << utilization::period_bits;
    u = {};
    u.fold(now, now);
    CHECK(std::abs(static_cast<int>(u.value()) - row[1].get<int>()) <= 1);
  }
  const nanos service = now;
  utilization full(now, service, capacity_scale);
  CHECK(full.value() == 1023);  // one short of 1024: Linux's rounding
  for (const auto& row : golden().at("blocked_decay_after_full").at("rows")) {
    const nanos then = now + (row[0].get<nanos>() << utilization::period_bits);
    CHECK(std::abs(static_cast<int>(full.at(then, service)) - row[1].get<int>()) <= 1);
  }
  CHECK(full.at(now + (nanos{3000} << utilization::period_bits), service) == 0);
}

TEST_CASE("running time is never counted twice nor carried without bound") {
  utilization u;
  const nanos period = 1 << utilization::period_bits;
  u.fold(period, 50 * period);  // a wrong count, or a clock that stood still
  CHECK(u.value() <= 23);
  u.fold(2 * period, 50 * period);
  u.fold(3 * period, 50 * period);
  CHECK(u.value() <= 43);  // two periods at most
  const utilization before = u;
  u.fold(2 * period, 60 * period);  // the past
  CHECK(u.raw() == before.raw());
}

TEST_CASE("packing loses nothing") {
  utilization u(7'000'000, 5'000, 321);
  u.fold(90'000'000, 3'000'000);
  const utilization v = utilization::unpack(u.packed(), u.counted());
  CHECK(v.raw() == u.raw());
  CHECK(v.at(200'000'000, 9'000'000) == u.at(200'000'000, 9'000'000));
}

TEST_CASE("the estimate rises at once and falls by a quarter") {
  unsigned estimate = 0;
  for (const auto& row : golden().at("util_est").at("rows")) {
    estimate = estimate_after_sleep(estimate, row[0].get<unsigned>(), row[1].get<unsigned>());
    CHECK(estimate == row[2].get<unsigned>());
  }
}
