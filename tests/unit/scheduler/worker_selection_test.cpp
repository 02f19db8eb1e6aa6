// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "driver.hpp"
#include "scheduler/balancing.hpp"
#include "scheduler/utilization.hpp"
#include "scheduler/worker_selection.hpp"

namespace lagom::test {

namespace {

// Two caches of four cores with two threads each: workers 0 … 7 in the first, 8 … 15 in the second; 0 and 1 share a core,
// 0 … 3 a cluster.
struct machine {
  std::vector<worker_seat> seats;
  std::vector<std::uint32_t> worker_at = std::vector<std::uint32_t>(128, no_worker);
  std::vector<farther_cache> farther{{{64, 72}, distance::near_node}, {{0, 8}, distance::near_node}};
  seating map;

  machine() {
    for (std::uint32_t w = 0; w < 16; ++w) {
      const std::uint32_t base = w / 8 * 64, seat = base + w % 8;
      seats.push_back({.seat = seat, .core = {seat / 2 * 2, seat / 2 * 2 + 2}, .cluster = {seat / 4 * 4, seat / 4 * 4 + 4},
                       .cache = {base, base + 8}, .cache_index = w / 8});
      worker_at[seat] = w;
    }
    map = {.workers = seats, .worker_at = worker_at, .farther = farther, .caches = 2};
  }
};

struct words {
  std::vector<std::uint64_t> bits = std::vector<std::uint64_t>(2);
  const machine& m;
  words(const machine& where, std::initializer_list<std::uint32_t> workers) : m(where) {
    for (const std::uint32_t w : workers) bits[m.seats[w].seat / 64] |= std::uint64_t{1} << (m.seats[w].seat % 64);
  }
  operator seat_words() const { return bits; }
};

constexpr nanos cost = 30'000;

struct question {
  machine m;
  wakee who{.previous = 0, .usual_stint = 1 * ms};
  situation now{.here = 4, .wait_here = 10 * ms, .wait_previous = 10 * ms, .wake_cost = cost};

  selection ask(std::initializer_list<std::uint32_t> idle, std::initializer_list<std::uint32_t> idle_only = {}) {
    const words i(m, idle), o(m, idle_only);
    now.idle = i;
    now.idle_only = o;
    return select_worker(m.map, who, now);
  }
};

}  // namespace

TEST_CASE("selection: who waits less here than a wake-up takes stays, even if others sleep") {
  question q;
  q.now.wait_here = cost;
  const selection s = q.ask({0, 1, 2, 3});
  CHECK(s.worker == 4);
  CHECK_FALSE(s.must_claim);
}

TEST_CASE("selection: a short job is not worth a wake-up, a long one is") {
  question q;
  q.who.usual_stint = 1'000;
  CHECK(q.ask({0, 1, 2, 3}).worker == 4);
  q.who.usual_stint = 1 * ms;
  CHECK(q.ask({0, 1, 2, 3}).worker == 0);
  CHECK(q.ask({0, 1, 2, 3}).must_claim);
}

TEST_CASE("selection: the order is previous, recent, whole core near, sibling, cluster, cache, farther") {
  question q;
  q.who.recent = 6;
  CHECK(q.ask({0, 1, 2, 3, 6, 7, 8}).worker == 0);
  CHECK(q.ask({1, 2, 3, 6, 7, 8}).worker == 6);
  q.who.recent = no_worker;
  CHECK(q.ask({1, 2, 3, 6, 7, 8}).worker == 2);  // 2 and 3 are a whole core of the cluster
  CHECK(q.ask({1, 2, 6, 7, 8}).worker == 6);     // a whole core of the cache
  CHECK(q.ask({1, 2, 6, 8}).worker == 1);        // the sibling
  CHECK(q.ask({2, 6, 8}).worker == 2);
  CHECK(q.ask({6, 8}).worker == 6);
  CHECK(q.ask({8, 10, 11}).worker == 10);        // farther: a whole core first
  CHECK(q.ask({8}).worker == 8);
  CHECK(q.ask({8}).must_claim);
}

TEST_CASE("selection: clamps that ask for more workers than are awake have them side by side") {
  question q;
  q.now.packs = true;
  CHECK(q.ask({1, 2, 3, 6, 7}).worker == 1);
  CHECK(q.ask({2, 3, 6, 7}).worker == 2);
  CHECK(awake_target(0) == 1);
  CHECK(awake_target(1) == 2);
  CHECK(awake_target(819) == 2);   // 80 % of a CPU is a whole one
  CHECK(awake_target(820) == 3);
  CHECK(awake_target(4 * 1024) == 6);
}

TEST_CASE("selection: work is not pushed to a far node, but somebody without a past may begin there") {
  question q;
  for (farther_cache& f : q.m.farther) f.distance = distance::far_node;
  CHECK(q.ask({8, 9}).worker == 4);
  CHECK_FALSE(q.ask({8, 9}).must_claim);
  q.who.previous = no_worker;
  CHECK(q.ask({8, 9}).worker == 8);
}

TEST_CASE("selection: affinity holds everywhere") {
  question q;
  const words only_5_and_9(q.m, {5, 9});
  q.who.allowed = only_5_and_9;
  CHECK(q.ask({0, 1, 2, 9}).worker == 9);
  CHECK(q.ask({0, 5, 9}).worker == 5);
  CHECK(q.ask({0, 1, 2}).worker == no_worker);  // neither here nor previous may run it
  q.now.wait_here = 0;
  CHECK(q.ask({0, 1, 2}).worker == no_worker);
  CHECK(q.ask({}, {9}).worker == no_worker);    // in another cache: the caller looks there
  CHECK(q.ask({}, {5}).worker == 5);
}

TEST_CASE("selection: who only has idle-class work is idle to a normal wakee, not to one of the idle class") {
  question q;
  CHECK(q.ask({2, 3}, {0}).worker == 0);
  CHECK_FALSE(q.ask({2, 3}, {0}).must_claim);
  CHECK(q.ask({2, 3}, {7}).worker == 2);  // not near enough to be taken before a search
  CHECK(q.ask({}, {7}).worker == 7);
  q.who.is_idle_class = true;
  CHECK(q.ask({2, 3}, {0}).worker == 2);
  CHECK(q.ask({2, 3}, {0}).must_claim);
  // Nobody sleeps: no probing. Where it was, if that has only its like; else here; else where it was, all the same.
  CHECK(q.ask({}, {0, 7}).worker == 0);
  CHECK(q.ask({}, {4, 7}).worker == 4);
  CHECK(q.ask({}, {7}).worker == 0);
}

TEST_CASE("selection: a short one of the idle class does not stay behind normal work while somebody sleeps") {
  question q;
  q.who = {.previous = 4, .is_idle_class = true, .usual_stint = 1'000};
  q.now.wait_here = forever;
  CHECK(q.ask({9}).worker == 9);
  CHECK(q.ask({}).worker == 4);
}

TEST_CASE("selection: nobody sleeps: where it waits less, moving counted as a wake-up") {
  question q;
  q.now = {.here = 4, .wait_here = 100'000, .wait_previous = 80'000, .wake_cost = cost};
  CHECK(q.ask({}).worker == 4);
  q.now.wait_previous = 60'000;
  CHECK(q.ask({}).worker == 0);
  q.now.here = no_worker;
  CHECK(q.ask({}).worker == 0);
  q.who.previous = no_worker;
  CHECK(q.ask({}).worker == no_worker);
}

TEST_CASE("selection: a claim that fails leads to the next best") {
  question q;
  words idle(q.m, {2, 3, 8});
  const words nobody(q.m, {});
  q.now.idle = idle;
  q.now.idle_only = nobody;
  std::vector<std::uint32_t> asked;
  for (;;) {
    const selection s = select_worker(q.m.map, q.who, q.now);
    asked.push_back(s.worker);
    if (!s.must_claim) break;
    const std::uint32_t seat = q.m.seats[s.worker].seat;
    idle.bits[seat / 64] &= ~(std::uint64_t{1} << (seat % 64));
  }
  CHECK(asked == std::vector<std::uint32_t>{2, 3, 8, 4});
}

TEST_CASE("selection: CPUs of two speeds") {
  question q;
  for (std::uint32_t w = 4; w < 8; ++w) q.m.seats[w].capacity = 506;
  q.m.map.is_hybrid = true;
  q.who = {.previous = 5, .usual_stint = 1 * ms, .utilization = 100};
  CHECK(q.ask({5, 0}).worker == 5);  // fast enough, and its memory is there
  CHECK(q.ask({6, 7, 0}).worker == 0);  // else the fastest
  q.who.utilization = 900;
  CHECK(q.ask({5, 0}).worker == 0);
  CHECK(q.ask({5, 6}).worker == 5);  // none is fast enough: better a slow one than waiting
  q.who = {.previous = 5, .usual_stint = 1'000, .utilization = 100, .clamp = {.min = 800, .max = 1024}};
  q.now.wait_here = 0;
  CHECK(q.ask({0, 6}).worker == 0);  // asks for more than here: worth a wake-up
  CHECK(q.ask({6}).worker == 4);     // but not for more of the same
}

TEST_CASE("victims: nearest first, each once, none that is not marked") {
  const machine m;
  const words marked(m, {1, 3, 6, 7, 9, 15});
  for (std::uint64_t random = 0; random < 40; ++random) {
    std::vector<std::uint32_t> seen;
    std::vector<int> distances;
    visit_victims(m.map, 0, random, [&](std::uint32_t i) { return marked.bits[i]; },
                  [&](std::uint32_t w, std::uint8_t d) {
                    seen.push_back(w);
                    distances.push_back(d);
                    return false;
                  });
    CHECK(distances == std::vector<int>{0, 1, 2, 2, 4, 4});
    CHECK(seen[0] == 1);
    CHECK(seen[1] == 3);
    CHECK(std::is_permutation(seen.begin(), seen.end(), std::begin({1u, 3u, 6u, 7u, 9u, 15u})));
    for (std::size_t i = 0; i < seen.size(); ++i) CHECK(m.map.distance_between(0, seen[i]) == distances[i]);
  }
  int visits = 0;
  CHECK(visit_victims(m.map, 0, 3, [&](std::uint32_t i) { return marked.bits[i]; }, [&](auto, auto) { return ++visits == 2; }));
  CHECK(visits == 2);
}

TEST_CASE("victims: equally near thieves begin at different ones") {
  const machine m;
  const words marked(m, {4, 5, 6, 7});
  std::vector<int> first(16);
  for (std::uint64_t random = 0; random < 80; ++random) {
    visit_victims(m.map, 0, random, [&](std::uint32_t i) { return marked.bits[i]; }, [&](std::uint32_t w, auto) {
      ++first[w];
      return true;
    });
  }
  CHECK(first[4] > 0);
  CHECK(first[5] > 0);
  CHECK(first[6] > 0);
  CHECK(first[7] > 0);
}

TEST_CASE("theft: half, few from far; the guard grows with the distance and ends") {
  const theft_limits limits;
  CHECK(loot_size(1, distance::same_core, limits) == 1);
  CHECK(loot_size(5, distance::same_cache, limits) == 3);
  CHECK(loot_size(100, distance::same_cache, limits) == 8);
  CHECK(loot_size(100, distance::same_package, limits) == 1);
  CHECK(theft_guard(distance::same_core, 0, limits) == 0);
  CHECK(theft_guard(distance::same_cache, 1, limits) == 3'000);
  CHECK(theft_guard(distance::same_package, 0, limits) == 30'000);
  CHECK(theft_guard(distance::far_node, 0, limits) == 100'000);
  CHECK(theft_guard(distance::far_node, 2, limits) == 0);
}

TEST_CASE("theft gate: closes with failures, never wholly, and opens again") {
  theft_gate gate;
  for (int i = 0; i < 100; ++i) gate.record(false);
  int open = 0;
  for (std::uint64_t r = 0; r < 1024; ++r) open += gate.opens(r);
  CHECK(open >= 16);
  CHECK(open <= 18);
  for (int i = 0; i < 100; ++i) gate.record(true);
  open = 0;
  for (std::uint64_t r = 0; r < 1024; ++r) open += gate.opens(r);
  CHECK(open > 1000);
}

TEST_CASE("pull: the most served one that does not make it worse") {
  run_queue q;
  std::vector<entity> e(4);
  for (entity& one : e) q.enqueue(one, joining::spawned, 0);
  q.pick(0);
  std::vector<unsigned> used{10, 400, 300, 900};
  const auto number_of = [&](const entity& one) { return static_cast<std::size_t>(&one - e.data()); };
  const auto used_of = [&](const entity& one) { return used[number_of(one)]; };
  const auto anybody = [](const entity&) { return true; };
  CHECK(is_worth_a_pull(1024, 2048));
  CHECK_FALSE(is_worth_a_pull(1000, 1170));
  const std::uint64_t one = load_of(nice_0_weight.scaled, 1024);
  CHECK(load_of(nice_0_weight.scaled, 512) == 2 * one);
  used[number_of(*q.current())] = 0;
  entity* got = pull_candidate(q, one, 1024, anybody, used_of);
  REQUIRE(got != nullptr);
  CHECK(got != q.current());
  used[number_of(*q.current())] = 1000;  // the most served one runs
  CHECK(pull_candidate(q, one, 1024, anybody, used_of) == nullptr);
  used[number_of(*q.current())] = 0;
  for (const entity& other : e) {
    if (&other != q.current()) CHECK(used_of(*got) >= used_of(other));
  }
  CHECK(pull_candidate(q, one - 1, 1024, anybody, used_of) == nullptr);
  const entity* taboo = got;
  got = pull_candidate(q, one, 1024, [&](const entity& x) { return &x != taboo; }, used_of);
  REQUIRE(got != nullptr);
  CHECK(got != taboo);
}

TEST_CASE("pull: three hogs on two workers get two thirds each") {
  struct worker_model {
    run_queue queue;
    nanos next_pull;
  };
  worker_model w[2];
  w[0].next_pull = 4 * ms;
  w[1].next_pull = 5 * ms;
  std::vector<entity> hogs(3);
  std::vector<utilization> used(3);
  const auto number = [&](const entity& e) { return static_cast<std::size_t>(&e - hogs.data()); };
  w[0].queue.enqueue(hogs[0], joining::spawned, 0);
  w[1].queue.enqueue(hogs[1], joining::spawned, 0);
  w[1].queue.enqueue(hogs[2], joining::spawned, 0);
  w[0].queue.pick(0);
  w[1].queue.pick(0);
  std::uint64_t random = 1;
  for (nanos now = 0; now < 2000 * ms; now += 100'000) {
    for (int i = 0; i < 2; ++i) {
      run_queue &mine = w[i].queue, &other = w[1 - i].queue;
      if (mine.charge(now)) mine.pick(now);
      if (now < w[i].next_pull) continue;
      random = random * 6364136223846793005u + 1442695040888963407u;
      w[i].next_pull = now + 3 * ms + static_cast<nanos>(random >> 33) % (2 * ms);
      other.charge(now);
      for (std::size_t k = 0; k < 3; ++k) used[k].fold(now, hogs[k].sum_exec);
      const std::uint64_t here = load_of(mine.total_weight(), 1024), there = load_of(other.total_weight(), 1024);
      if (!is_worth_a_pull(here, there)) continue;
      entity* e = pull_candidate(other, there - here, 1024, [](const entity&) { return true; },
                                 [&](const entity& x) { return used[number(x)].value(); });
      if (e == nullptr) continue;
      other.dequeue(*e, leaving::migrated, now);
      mine.enqueue(*e, joining::migrated, now);
    }
  }
  for (const entity& e : hogs) {
    const double share = static_cast<double>(e.sum_exec) / (2000.0 * ms);
    CHECK(share > 0.63);
    CHECK(share < 0.70);
  }
}

}  // namespace lagom::test
