// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "runtime/worker/seat_plan.hpp"
#include "topology/discover.hpp"

using namespace lagom;

namespace {

void check_seats(const std::string& description, std::size_t workers) {
  const topology::machine where = topology::discover(description);
  const std::size_t n = workers == 0 ? where.cpus.size() : workers;
  const topology::worker_plan plan = topology::plan_workers(where, n);
  const detail::seat_plan seats(where, plan);
  const scheduler::seating& map = seats.map();
  REQUIRE(map.workers.size() == n);
  REQUIRE(map.farther.size() == static_cast<std::size_t>(map.caches) * (map.caches - 1));
  CHECK(map.worker_at.size() % 64 == 0);
  std::size_t seated = 0;
  for (const std::uint32_t w : map.worker_at) seated += w != scheduler::no_worker;
  CHECK(seated == n);
  bool is_same = true, is_inside = true, is_own_word = true;
  for (std::uint32_t a = 0; a < n; ++a) {
    const scheduler::worker_seat& s = map.workers[a];
    is_inside &= map.worker_at[s.seat] == a && s.core.contains(s.seat) && s.cluster.contains(s.seat) && s.cache.contains(s.seat);
    is_own_word &= s.cache.begin % 64 == 0;
    for (std::uint32_t b = 0; b < n; b += 1 + static_cast<std::uint32_t>(n / 97)) {
      if (a == b) continue;
      const auto wanted = static_cast<std::uint8_t>(topology::distance_between(where, plan.cpu_of_worker[a], plan.cpu_of_worker[b]));
      is_same &= map.distance_between(a, b) == wanted;
    }
  }
  CHECK(is_inside);
  CHECK(is_own_word);
  CHECK(is_same);
  for (std::uint32_t c = 0; c < map.caches; ++c) {
    const auto row = map.beyond(c);
    CHECK(std::is_sorted(row.begin(), row.end(), [](const auto& x, const auto& y) { return x.distance < y.distance; }));
  }
}

}  // namespace

TEST_CASE("seats: as far apart as the topology says, on every shape") {
  const char* shapes[] = {"pu:1", "core:2 pu:1", "pack:1 [numa] l3:1 core:8 pu:2", "pack:2 [numa(memory=64GB)] l3:1 core:8 pu:2",
                          "pack:1 [numa] l3:8(size=32MB) l2:8(size=1MB) core:1 pu:2", "pack:1 [numa] l3:1(size=64MB) l2:16(size=2MB) core:4 pu:1",
                          "numa:4(memory=16GB) l3:1 core:4 pu:2", "pack:2 die:2 [numa] l3:2 core:4 pu:2", "pack:1 [numa] l3:1 group:6 core:4 pu:1",
                          "pack:1 core:4 pu:8", "pack:1 [numa] l2:8 core:2 pu:1", "pack:2 [numa] l3:1 core:4 pu:2(indexes=8*2:1*8)",
                          "pack:4 [numa] l3:1 core:40 pu:2"};
  for (const char* shape : shapes) {
    const std::string shown = shape;
    CAPTURE(shown);
    check_seats("synthetic:" + shown, 0);
    check_seats("synthetic:" + shown, 1);
    check_seats("synthetic:" + shown, 3);
  }
}

TEST_CASE("seats: more workers than CPUs share cores") {
  check_seats("synthetic:pack:2 [numa] l3:1 core:2 pu:1", 4);
  const topology::machine where = topology::discover("synthetic:core:2 pu:1");
  const detail::seat_plan seats(where, topology::plan_workers(where, 5));
  CHECK(seats.map().distance_between(0, 2) == scheduler::distance::same_core);
  CHECK(seats.map().distance_between(0, 1) != scheduler::distance::same_core);
}

TEST_CASE("seats: files of real and unusual machines, and their speeds") {
  const std::string folder = LAGOM_TOPOLOGY_FILES;
  for (const char* name : {"hybrid_x86_2p4e", "arm_1_3_4", "numa4_dist", "sparse_odd", "half_allowed_cores", "island_without_l3",
                           "memory_only_node", "cpus_without_node", "disallowed_cpu"}) {
    CAPTURE(name);
    check_seats("xml:" + folder + "/" + name + ".xml", 0);
  }
  const topology::machine hybrid = topology::discover("xml:" + folder + "/hybrid_x86_2p4e.xml");
  const detail::seat_plan seats(hybrid, topology::plan_workers(hybrid, hybrid.cpus.size()));
  CHECK(seats.map().is_hybrid);
  CHECK(seats.map().workers[0].capacity == 1024);
  CHECK(seats.map().workers[hybrid.cpus.size() - 3].capacity == 506);
}
