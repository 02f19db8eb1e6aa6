// SPDX-License-Identifier: BSL-1.0
#include "scheduler/capacity_fit.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace lagom::test {
namespace {

using namespace scheduler;

// The kinds of the machines in tests/golden/topology/.
const std::vector<std::uint16_t> hybrid_x86_2p4e{1024, 506};
const std::vector<std::uint16_t> arm_1_3_4{1024, 760, 280};
const std::vector<std::uint16_t> numa4_dist{1024}, sparse_odd{1024};

using order = std::vector<unsigned>;

order order_of(const std::vector<std::uint16_t>& kinds, unsigned util, clamp_range clamp, kind_preference mode) {
  std::vector<std::uint8_t> indexes(kinds.size());
  order_kinds(kinds, util, clamp, mode, indexes);
  order found;
  for (const std::uint8_t i : indexes) {
    found.push_back(kinds[i]);
  }
  return found;
}

}  // namespace

TEST_CASE("capacity fit: a fifth of the CPU stays free") {
  CHECK(fits(0, {}, 1) == fit::whole);
  CHECK(fits(819, {}, 1024) == fit::whole);
  CHECK(fits(820, {}, 1024) == fit::too_small);
  CHECK(fits(404, {}, 506) == fit::whole);
  CHECK(fits(405, {}, 506) == fit::too_small);
  CHECK(fits(223, {}, 280) == fit::whole);
  CHECK(fits(224, {}, 280) == fit::too_small);
}

TEST_CASE("capacity fit: who is capped at what a CPU has is content with it") {
  CHECK(fits(900, {0, 280}, 280) == fit::whole);
  CHECK(fits(900, {0, 281}, 280) == fit::too_small);
  CHECK(fits(900, {0, 506}, 506) == fit::whole);
  CHECK(fits(1024, {0, 1000}, 1024) == fit::whole);
  // A max of 1024 is none, though 1024 <= 1024.
  CHECK(fits(900, {0, 1024}, 1024) == fit::too_small);
}

TEST_CASE("capacity fit: a min that the CPU does not reach leaves a wish open") {
  CHECK(fits(100, {600, 1024}, 506) == fit::unmet_min);
  CHECK(fits(100, {506, 1024}, 506) == fit::whole);
  CHECK(fits(100, {600, 1024}, 760) == fit::whole);
  CHECK(fits(700, {800, 1024}, 506) == fit::too_small);  // its work does not fit either
  CHECK(fits(400, {300, 1024}, 280) == fit::too_small);
  CHECK(fits(200, {1024, 1024}, 1024) == fit::whole);
  CHECK(fits(100, {800, 280}, 280) == fit::whole);  // min above max means max
  CHECK(fits(100, {800, 300}, 280) == fit::unmet_min);
}

TEST_CASE("capacity fit: bigger means by more than 5 percent") {
  CHECK(is_bigger(1024, 506));
  CHECK(is_bigger(1024, 972));
  CHECK_FALSE(is_bigger(1024, 973));
  CHECK_FALSE(is_bigger(1024, 1024));
  CHECK_FALSE(is_bigger(506, 1024));
}

TEST_CASE("capacity fit: a misfit needs a bigger CPU, and that there is one") {
  CHECK(is_misfit(500, {}, 506, 1024));
  CHECK_FALSE(is_misfit(300, {}, 506, 1024));
  CHECK(is_misfit(300, {700, 1024}, 506, 1024));  // for its min clamp
  CHECK_FALSE(is_misfit(1000, {}, 1024, 1024));
  CHECK_FALSE(is_misfit(1000, {}, 990, 1024));
  CHECK_FALSE(is_misfit(1000, {0, 280}, 280, 1024));
}

TEST_CASE("capacity fit: the fastest kinds come first unless thrift is asked for") {
  for (const unsigned util : {0u, 100u, 500u, 1024u}) {
    CHECK(order_of(arm_1_3_4, util, {}, kind_preference::fastest) == order{1024, 760, 280});
    CHECK(order_of(hybrid_x86_2p4e, util, {}, kind_preference::fastest) == order{1024, 506});
    CHECK(order_of(numa4_dist, util, {}, kind_preference::thriftiest) == order{1024});
    CHECK(order_of(sparse_odd, util, {}, kind_preference::fastest) == order{1024});
  }
}

TEST_CASE("capacity fit: thrift takes the smallest kind that fits, then larger ones, then the others from the largest down") {
  const auto thrift = kind_preference::thriftiest;
  CHECK(order_of(arm_1_3_4, 100, {}, thrift) == order{280, 760, 1024});
  CHECK(order_of(arm_1_3_4, 300, {}, thrift) == order{760, 1024, 280});
  CHECK(order_of(arm_1_3_4, 700, {}, thrift) == order{1024, 760, 280});
  CHECK(order_of(arm_1_3_4, 1000, {}, thrift) == order{1024, 760, 280});
  CHECK(order_of(arm_1_3_4, 900, {0, 300}, thrift) == order{760, 1024, 280});  // capped below both
  CHECK(order_of(hybrid_x86_2p4e, 100, {}, thrift) == order{506, 1024});
  CHECK(order_of(hybrid_x86_2p4e, 500, {}, thrift) == order{1024, 506});
}

TEST_CASE("capacity fit: a min clamp outweighs thrift") {
  CHECK(order_of(arm_1_3_4, 100, {1, 1024}, kind_preference::thriftiest) == order{1024, 760, 280});
  CHECK(order_of(hybrid_x86_2p4e, 10, {300, 1024}, kind_preference::thriftiest) == order{1024, 506});
}

TEST_CASE("capacity fit: kinds in any order, and equal ones stay in theirs") {
  std::vector<std::uint8_t> indexes(4);
  const std::vector<std::uint16_t> kinds{280, 1024, 280, 760};
  order_kinds(kinds, 100, {}, kind_preference::thriftiest, indexes);
  CHECK(indexes == std::vector<std::uint8_t>{0, 2, 3, 1});
  order_kinds(kinds, 100, {}, kind_preference::fastest, indexes);
  CHECK(indexes == std::vector<std::uint8_t>{1, 3, 0, 2});
}

}  // namespace lagom::test
