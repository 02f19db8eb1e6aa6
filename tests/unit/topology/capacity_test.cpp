// SPDX-License-Identifier: BSL-1.0
#include "topology/capacity.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace lagom::topology;

namespace {

using values = std::vector<unsigned>;

capacity_facts kernel_says(unsigned capacity) {
  capacity_facts facts;
  facts.linux_capacity = capacity;
  return facts;
}

capacity_facts kind_at(core_kind kind, unsigned mhz, unsigned rank) {
  capacity_facts facts;
  facts.kind = kind;
  facts.frequency_max_mhz = mhz;
  facts.rank = rank;
  return facts;
}

}  // namespace

TEST_CASE("capacity: the kernel's numbers come first, scaled to the fastest") {
  const auto found = estimate_capacities({kernel_says(280), kernel_says(760), kernel_says(1000)});
  CHECK(found.source == capacity_source::kernel);
  CHECK(found.values == values{287, 778, 1024});
}

TEST_CASE("capacity: equal numbers of the kernel say nothing") {
  auto fast = kind_at(core_kind::intel_core, 5000, 1);
  auto slow = kind_at(core_kind::intel_atom, 3800, 0);
  fast.linux_capacity = slow.linux_capacity = 1024;
  const auto found = estimate_capacities({fast, slow});
  CHECK(found.source == capacity_source::kind_and_frequency);
  CHECK(found.values == values{1024, 506});  // 0.65 * 3800 / 5000
}

TEST_CASE("capacity: firmware counts from 5 % on, and before frequencies") {
  auto fast = kind_at(core_kind::unknown, 4000, 1);
  auto slow = kind_at(core_kind::unknown, 2000, 0);
  fast.cppc_highest = 200;
  slow.cppc_highest = 150;
  CHECK(estimate_capacities({fast, slow}).source == capacity_source::firmware);
  CHECK(estimate_capacities({fast, slow}).values == values{1024, 768});
  slow.cppc_highest = 195;
  CHECK(estimate_capacities({fast, slow}).source == capacity_source::frequency);
  CHECK(estimate_capacities({fast, slow}).values == values{1024, 512});
}

TEST_CASE("capacity: a source that leaves out one CPU is not asked") {
  auto known = kernel_says(500);
  known.rank = 0;
  auto unknown = capacity_facts{};
  unknown.rank = 1;
  const auto found = estimate_capacities({known, unknown});
  CHECK(found.source == capacity_source::rank);
  CHECK(found.values == values{614, 1024});
  unknown.rank.reset();
  CHECK(estimate_capacities({known, unknown}).source == capacity_source::uniform);
  CHECK(estimate_capacities({known, unknown}).values == values{1024, 1024});
}

TEST_CASE("capacity: turbo bins do not make kinds") {
  // hwloc ranks them as two kinds; taken for a kind, the slower would be at 614.
  const auto bins = estimate_capacities({kind_at(core_kind::intel_core, 5000, 0), kind_at(core_kind::intel_core, 5200, 1)});
  CHECK(bins.source == capacity_source::uniform);
  CHECK(bins.values == values{1024, 1024});
}

TEST_CASE("capacity: ranks go down by 0.6 each, and nothing goes to zero") {
  std::vector<capacity_facts> facts(20);
  for (unsigned rank = 0; rank < 20; ++rank) facts[rank].rank = rank;
  const auto found = estimate_capacities(facts);
  CHECK(found.values[19] == 1024);
  CHECK(found.values[18] == 614);
  CHECK(found.values[17] == 369);
  CHECK(found.values[0] == 1);
  CHECK(estimate_capacities({kernel_says(0), kernel_says(1024)}).source == capacity_source::uniform);
}

TEST_CASE("capacity: bigger means by 5 %, as in Linux") {
  CHECK_FALSE(is_bigger(1024, 1024));
  CHECK_FALSE(is_bigger(1078, 1024));
  CHECK(is_bigger(1079, 1024));
  CHECK_FALSE(is_bigger(1024, 973));
  CHECK(is_bigger(1024, 972));
  CHECK_FALSE(is_bigger(506, 1024));
}
