// SPDX-License-Identifier: BSL-1.0
// Shares follow the weights, and nobody waits longer for its turn than its weight implies.
#include <map>
#include <random>

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
    // A share may be 15 % off, and so may the few gaps that make it up.
    const double least_part = burners[i]->gaps_ms.size() >= 200 ? part : 0.85 * part;
    const double implied = turn / least_part - turn;
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

namespace {

// Ten thousand times a second, from outside. Returns how many changes took longer than a second to be asked for.
int change_nices(contest& all, std::vector<contestant*>& fibers, std::chrono::nanoseconds duration) {
  std::mt19937 random(18);
  int stalls = 0;
  auto next = clock::now();
  for (const auto until = next + duration; next < until && !all.is_over(); next += 100us) {
    std::this_thread::sleep_until(next);
    const auto begun = clock::now();
    fibers[random() % fibers.size()]->handle.set_nice(static_cast<int>(random() % 40) - 20);
    stalls += clock::now() - begun > 1s;
  }
  return stalls;
}

}  // namespace

TEST_CASE("18: weights change ten thousand times a second, then all are equal") {
  for (const unsigned workers : {1u, 2u}) {
    lagom::runtime rt(scenario_options(workers));
    contest all(rt);
    std::atomic<bool> is_calm{false};
    std::atomic<long> turns{0};
    std::vector<contestant*> fibers;
    for (int i = 0; i < 8; ++i) {
      fibers.push_back(&all.start({}, [&, i](contestant&) {
        std::minstd_rand random(static_cast<unsigned>(i) + 1);
        while (!all.is_over()) {
          all.work(20us);
          ++turns;
          if (!is_calm && random() % 8 == 0) lagom::this_fiber::sleep_for(std::chrono::microseconds(random() % 300));
          lagom::this_fiber::checkpoint();
        }
      }));
    }
    std::atomic<bool> is_over{false};
    std::atomic<int> standstills{0};
    std::thread watcher([&] {
      for (long seen = -1; !is_over; std::this_thread::sleep_for(limit(1s))) standstills += std::exchange(seen, turns.load()) == turns;
    });
    CHECK(change_nices(all, fibers, window(5s, 30s)) == 0);
    is_calm = true;
    for (contestant* c : fibers) c->handle.set_nice(0);
    std::this_thread::sleep_for(2s);
    all.measure(window(2s, 10s));
    is_over = true;
    watcher.join();
    CHECK(standstills == 0);
    for (const contestant* c : fibers) {
      CHECK(c->handle.get_attributes().nice == 0);
      if (workers == 1) CHECK(std::abs(c->share - 12.5) <= 2);
    }
  }
}
