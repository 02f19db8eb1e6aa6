// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

#include "driver.hpp"
#include "scheduler/waiting.hpp"

namespace lagom::test {
namespace {

// The same as `waiting`, by looking at everybody.
entity* first_eligible_of(const std::vector<entity*>& all, virtual_time limit) {
  entity* best = nullptr;
  for (entity* e : all) {
    if (!is_before(limit, e->vruntime) && (best == nullptr || is_due_before(*e, *best))) {
      best = e;
    }
  }
  return best;
}

std::ptrdiff_t in_tree(const std::deque<entity>& all) {
  return std::ranges::count_if(all, [](const entity& e) { return e.where == place::tree; });
}

std::vector<entity*> from_the_last(const waiting& w) {
  std::vector<entity*> found;
  waiting::from_the_last walk(w);
  while (entity* e = walk.next()) {
    found.push_back(e);
  }
  return found;
}

// Random insertions, removals and searches, everything checked after each.
void churn(std::uint32_t seed, std::size_t size, std::uint64_t range, std::size_t slices) {
  std::mt19937 random(seed);
  std::deque<entity> storage(size);
  std::vector<entity*> outside, inside;
  for (entity& e : storage) {
    outside.push_back(&e);
  }
  waiting w;
  std::uint64_t sequence = 0;
  const virtual_time origin{UINT64_MAX - range / 2};  // the line wraps in the middle
  for (int step = 0; step < 4000; ++step) {
    const bool grows = inside.empty() || (!outside.empty() && random() % 20 < (step < 2000 ? 12U : 9U));
    auto& from = grows ? outside : inside;
    std::swap(from[random() % from.size()], from.back());
    entity& e = *from.back();
    from.pop_back();
    if (grows) {
      e.vruntime = origin + virtual_span{static_cast<std::int64_t>(random() % range)};
      e.slice = static_cast<std::uint32_t>(1 + random() % slices);
      // Mostly near the end, as after a request.
      e.virtual_deadline = origin + virtual_span{static_cast<std::int64_t>(step % 3 == 0 ? random() % range : range + step / 8)};
      e.sequence = ++sequence;
      w.insert(e);
      inside.push_back(&e);
    } else {
      w.erase(e);
      outside.push_back(&e);
    }
    w.check_invariants();
    const virtual_time limit = origin + virtual_span{static_cast<std::int64_t>(random() % range)};
    REQUIRE(w.first_eligible(limit) == first_eligible_of(inside, limit));
    REQUIRE(w.is_empty() == inside.empty());
    if (!inside.empty()) {
      const auto [low, high] = std::minmax_element(inside.begin(), inside.end(), [](entity* a, entity* b) { return a->slice < b->slice; });
      REQUIRE(w.shortest_slice() == (*low)->slice);
      REQUIRE(w.longest_slice() == (*high)->slice);
    }
    if (step % 50 == 0) {
      auto sorted = inside;
      std::sort(sorted.begin(), sorted.end(), [](entity* a, entity* b) { return is_due_before(*b, *a); });
      REQUIRE(from_the_last(w) == sorted);
    }
  }
}

}  // namespace

TEST_CASE("waiting: agrees with looking at everybody") {
  for (std::uint32_t seed = 1; seed <= 4; ++seed) {
    CAPTURE(seed);
    churn(seed, 6, 50, 1);          // many ties
    churn(seed, 16, 1'000, 1);
    churn(seed, 40, 40, 1);
    churn(seed, 120, 1'000'000, 1);
    churn(seed, 120, 100'000, 3);   // several slices
    churn(seed, 30, 20, 2);
  }
}

TEST_CASE("waiting: equal virtual deadlines go in order of insertion, wherever they are kept") {
  // The front keeps some, the tree others: other slices, and those moved out of the way while ineligible.
  std::deque<entity> storage(60);
  waiting w;
  std::uint64_t sequence = 0;
  for (entity& e : storage) {
    e.slice = sequence % 3 == 0 ? 7 : 5;
    e.vruntime = {1000};
    e.virtual_deadline = {5000};
    e.sequence = ++sequence;
    w.insert(e);
  }
  CHECK(w.first_eligible({999}) == nullptr);  // moves the head of the front
  w.check_invariants();
  CHECK(in_tree(storage) > 0);
  for (entity& e : storage) {
    REQUIRE(w.first_eligible({1000}) == &e);
    w.erase(e);
  }
  CHECK(w.is_empty());
}

TEST_CASE("waiting: round robin among equals touches no tree") {
  std::deque<entity> storage(1000);
  waiting w;
  std::int64_t line = 0;
  std::uint64_t sequence = 0;
  for (entity& e : storage) {
    e.slice = 5;
    e.virtual_deadline = {1000};
    e.sequence = ++sequence;
    w.insert(e);
  }
  for (int turn = 0; turn < 3000; ++turn) {
    entity& e = w.earliest();
    REQUIRE(&e == &storage[static_cast<std::size_t>(turn % 1000)]);
    w.erase(e);
    e.virtual_deadline = {static_cast<std::uint64_t>(2000 + ++line)};
    e.sequence = ++sequence;
    w.insert(e);
    REQUIRE(in_tree(storage) == 0);
  }
}

TEST_CASE("waiting: a few who are far ahead do not send everybody else to the tree") {
  std::deque<entity> storage(1000);
  waiting w;
  std::uint64_t line = 0;
  std::uint64_t sequence = 0;
  for (entity& e : storage) {
    e.kind = sequence < 20 ? policy::batch : policy::normal;  // those who are ahead; nobody here cares for the kind
    e.slice = 5;
    e.virtual_deadline = {1000 + ++line};
    e.sequence = ++sequence;
    w.insert(e);
  }
  std::ptrdiff_t most_in_tree = 0;
  for (int turn = 0; turn < 20'000; ++turn) {
    entity& e = w.earliest();
    w.erase(e);
    e.virtual_deadline = {1000 + ++line + (e.kind == policy::batch ? 500U : 0U)};
    e.sequence = ++sequence;
    w.insert(e);
    if (turn % 100 == 0) {
      w.check_invariants();
      most_in_tree = std::max(most_in_tree, in_tree(storage));
    }
  }
  CHECK(most_in_tree <= 40);
}

}  // namespace lagom::test
