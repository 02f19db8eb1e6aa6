// SPDX-License-Identifier: BSL-1.0
// Shares follow the weights, and nobody waits longer for its turn than its weight implies.
#include <map>

#include "scenario.hpp"

using namespace lagom::tests;

namespace {

// Linux's weights of the nice values used here.
const std::map<int, double> weight_of{{-20, 88761}, {-5, 3121}, {0, 1024}, {5, 335}, {15, 36}, {18, 18}, {19, 15}};

// Burners of these nice values share a worker; checks shares and gaps.
void check_shares(const std::vector<int>& nices) {
  lagom::runtime rt(scenario_options(1));
  contest all(rt);
  double sum = 0;
  for (const int n : nices) sum += weight_of.at(n);
  constexpr double slice = 3;
  std::vector<contestant*> burners;
  for (const int n : nices) burners.push_back(&all.burner(of_nice(n)));
  all.measure(window(2s, 10s));
  all.finish();
  for (std::size_t i = 0; i < nices.size(); ++i) {
    const double part = weight_of.at(nices[i]) / sum;
    CAPTURE(nices[i]);
    CHECK(std::abs(burners[i]->share - 100 * part) <= std::max(3.0, 15 * part));
    // At most a slice per turn, so at most slice / part - slice between two turns.
    // Of a light one there are eight gaps in two seconds: the longest of them says more about the machine.
    const double gap = percentile(burners[i]->gaps_ms, burners[i]->gaps_ms.size() >= 200 ? 99 : is_long() ? 95 : 75);
    const double turn = slice + all.longest_taken_ms();
    const double implied = turn / part - turn;
    CHECK(gap <= (implied + 2 * slice) * (is_short() ? 10 : 1));
  }
}

}  // namespace

TEST_CASE("15: shares are as the weights") {
  SUBCASE("1 : 1") { check_shares({0, 0}); }
  SUBCASE("2 : 1, exactly 36 : 18") { check_shares({15, 18}); }
  SUBCASE("nice -5 : nice 5") { check_shares({-5, 5}); }
  SUBCASE("nice -20 : nice 0 : twenty of nice 19") {
    std::vector<int> nices{-20, 0};
    nices.insert(nices.end(), 20, 19);
    check_shares(nices);
  }
}

TEST_CASE("15: short sleeps do not level the weights") {
  lagom::runtime rt(scenario_options(1));
  contest all(rt);
  const contestant& heavy = all.worker(of_nice(-5), 2ms, 200us);
  const contestant& light = all.worker(of_nice(5), 2ms, 200us);
  all.measure(window(2s, 10s));
  CHECK(heavy.seconds >= 4 * light.seconds);
  CHECK(light.seconds > 0);
}
