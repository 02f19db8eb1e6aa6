// SPDX-License-Identifier: BSL-1.0
#include "topology/topology.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "topology/discover.hpp"

using namespace lagom::topology;

namespace {

machine synthetic(const std::string& description) { return discover("synthetic:" + description); }

std::vector<unsigned> cpus_of(const machine& where, std::size_t workers) {
  std::vector<unsigned> cpus;
  for (const auto index : plan_workers(where, workers).cpu_of_worker) cpus.push_back(where.cpus[index].os_index);
  return cpus;
}

using list = std::vector<unsigned>;

const char* const shapes[] = {
    "pu:1",
    "pack:2 [numa] l3:2 core:4 pu:2",
    "numa:4 l3:1 core:2 pu:2",
    "pack:1 [numa] l3:1 l2:4 core:4 pu:1",
    "pack:2 [numa] l3:1 core:4 pu:2(indexes=8*2:1*8)",
    "pack:3 core:5 pu:8",
};

}  // namespace

TEST_CASE("plan: cores fill before siblings, in order") {
  const machine where = synthetic("pack:1 [numa] l3:1 core:4 pu:2");
  CHECK(cpus_of(where, 1) == list{0});
  CHECK(cpus_of(where, 2) == list{0, 2});
  CHECK(cpus_of(where, 3) == list{0, 2, 4});
  CHECK(cpus_of(where, 4) == list{0, 2, 4, 6});
  CHECK(cpus_of(where, 5) == list{0, 2, 4, 6, 1});
  CHECK(cpus_of(where, 8) == list{0, 2, 4, 6, 1, 3, 5, 7});
  CHECK_FALSE(plan_workers(where, 8).oversubscribed);
}

TEST_CASE("plan: more workers than CPUs start again, none is refused") {
  const machine where = synthetic("core:2 pu:1");
  CHECK(cpus_of(where, 5) == list{0, 1, 0, 1, 0});
  CHECK(plan_workers(where, 5).oversubscribed);
  CHECK_THROWS_AS(plan_workers(where, 0), std::invalid_argument);
}

TEST_CASE("plan: sockets are filled one after the other, whatever the numbering") {
  const machine where = synthetic("pack:2 [numa] l3:1 core:4 pu:2(indexes=8*2:1*8)");
  CHECK(cpus_of(where, 4) == list{0, 4, 8, 12});
  CHECK(cpus_of(where, 6) == list{0, 4, 8, 12, 1, 5});
}

TEST_CASE("plan: fast kinds first, but a slow core before a fast core's sibling") {
  machine where = synthetic("pack:1 [numa] l3:1 core:4 pu:2");
  for (const std::size_t slow : {0, 1, 2, 3}) where.cpus[slow].capacity = 500;
  CHECK(cpus_of(where, 8) == list{4, 6, 0, 2, 5, 7, 1, 3});
  // Less than 5 % is no reason to leave the order.
  for (const std::size_t slow : {0, 1, 2, 3}) where.cpus[slow].capacity = 980;
  CHECK(cpus_of(where, 4) == list{0, 2, 4, 6});
}

TEST_CASE("plan and rings hold everybody once, on every shape") {
  for (const char* shape : shapes) {
    const machine where = synthetic(shape);
    const std::size_t n = where.cpus.size();
    const worker_plan plan = plan_workers(where, n);
    std::set<std::size_t> used(plan.cpu_of_worker.begin(), plan.cpu_of_worker.end());
    CHECK(used.size() == n);
    for (std::size_t self = 0; self < n; ++self) {
      const auto ring = ring_of_cpu(where, self);
      std::set<std::size_t> others;
      for (const auto& one : ring) {
        others.insert(one.index);
        CHECK(one.at == distance_between(where, self, one.index));
      }
      CHECK(ring.size() == n - 1);
      CHECK(others.size() == n - 1);
      CHECK(others.count(self) == 0);
      CHECK(std::is_sorted(ring.begin(), ring.end(), [](const auto& a, const auto& b) { return a.at < b.at; }));

      const auto workers = ring_of_worker(where, plan, self);
      CHECK(workers.size() == n - 1);
      for (const auto& one : workers)
        CHECK(one.at == distance_between(where, plan.cpu_of_worker[self], plan.cpu_of_worker[one.index]));
    }
  }
}

TEST_CASE("distance is symmetric, on every shape") {
  for (const char* shape : shapes) {
    const machine where = synthetic(shape);
    for (std::size_t a = 0; a < where.cpus.size(); ++a)
      for (std::size_t b = 0; b < a; ++b) CHECK(distance_between(where, a, b) == distance_between(where, b, a));
  }
}

TEST_CASE("ring: equally near ones start behind the asker") {
  const machine where = synthetic("pack:1 [numa] l3:1 core:4 pu:1");
  const auto indexes = [&](std::size_t self) {
    std::vector<std::size_t> found;
    for (const auto& one : ring_of_cpu(where, self)) found.push_back(one.index);
    return found;
  };
  CHECK(indexes(0) == std::vector<std::size_t>{1, 2, 3});
  CHECK(indexes(2) == std::vector<std::size_t>{3, 0, 1});
  CHECK(indexes(3) == std::vector<std::size_t>{0, 1, 2});
}

TEST_CASE("distance classes, nearest to farthest") {
  // Two sockets of two dies of two caches; pairs of threads.
  const machine where = synthetic("pack:2 die:2 [numa] l3:2 l2:2 core:2 pu:2");
  REQUIRE(where.cpus.size() == 64);
  CHECK(distance_between(where, 0, 0) == distance::same_core);
  CHECK(distance_between(where, 0, 1) == distance::same_core);
  CHECK(distance_between(where, 0, 2) == distance::same_cluster);
  CHECK(distance_between(where, 0, 4) == distance::same_llc);
  CHECK(distance_between(where, 0, 8) == distance::same_package);   // other cache, same node
  CHECK(distance_between(where, 0, 16) == distance::same_package);  // other node, same package
  CHECK(distance_between(where, 0, 32) == distance::near_node);     // nothing stated: 20
}

TEST_CASE("distance: what the machine states decides between near and far") {
  machine where = synthetic("numa:3 l3:1 core:1 pu:1");
  where.node_distances = {10, 30, 31, 30, 10, 20, 31, 20, 10};
  CHECK(distance_between(where, 0, 1) == distance::near_node);
  CHECK(distance_between(where, 0, 2) == distance::far_node);
  CHECK(node_distance(where, 0, 2) == 31);
  // The nearer node first, although both are near.
  CHECK(ring_of_cpu(where, 1).front().index == 2);
  // One way is longer: the pair is far.
  where.node_distances = {10, 20, 20, 90, 10, 20, 20, 20, 10};
  CHECK(distance_between(where, 0, 1) == distance::far_node);
  CHECK(distance_between(where, 1, 0) == distance::far_node);
  // 0 means unknown.
  where.node_distances.assign(9, 0);
  CHECK(node_distance(where, 0, 1) == 20);
}

TEST_CASE("a last-level cache of several cores that is an L2 is a cluster as well") {
  const machine where = synthetic("pack:1 [numa] l2:2 core:2 pu:1");
  CHECK(where.count(level::llc) == 2);
  CHECK(where.count(level::cluster) == 2);
  CHECK(where.domain_at(level::llc, 1).cpus.to_string() == "2-3");
}

TEST_CASE("machine: look-ups") {
  const machine where = synthetic("core:4 pu:1(indexes=9,1,7,3)");
  CHECK(where.allowed().to_string() == "1,3,7,9");
  for (std::size_t index = 0; index < where.cpus.size(); ++index)
    CHECK(where.index_of(where.cpus[index].os_index) == index);
  CHECK_FALSE(where.index_of(0).has_value());
  CHECK_FALSE(where.index_of(100).has_value());
  CHECK(where.domain_at(level::machine, 0).cpus == where.allowed());
  CHECK_THROWS_AS(where.domain_at(level::package, 5), std::out_of_range);
}
