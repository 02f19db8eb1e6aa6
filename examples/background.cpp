// SPDX-License-Identifier: BSL-1.0
// A server answers requests while it builds an index in the background, on one worker. The indexer is in the idle class:
// it gets what nobody else wants, and a request that arrives is served as soon as the indexer asks whether it should give way.
// Prints the delay of requests, without and with the indexer, and how much of the worker the indexer had.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include <lagom/lagom.hpp>

using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

namespace {

void compute(std::chrono::nanoseconds d) {
  for (const auto until = clock_type::now() + d; clock_type::now() < until;) {
  }
}

// Serves a request every 2 ms; returns how late each was begun.
std::vector<double> serve_requests(int count) {
  std::vector<double> delays_us;
  auto due = clock_type::now();
  for (int i = 0; i < count; ++i) {
    due += 2ms;
    lagom::this_fiber::sleep_until(due);
    delays_us.push_back(std::chrono::duration<double, std::micro>(clock_type::now() - due).count());
    compute(100us);
  }
  std::sort(delays_us.begin(), delays_us.end());
  return delays_us;
}

void build_index(std::stop_token stop, long& entries) {
  while (!stop.stop_requested()) {
    compute(20us);
    ++entries;
    lagom::this_fiber::checkpoint();
  }
}

void print(const char* what, const std::vector<double>& delays) {
  std::printf("%-16s best tenth %6.0f us, median %6.0f us\n", what, delays[delays.size() / 10], delays[delays.size() / 2]);
}

}  // namespace

int main() {
  lagom::runtime_options options;
  options.workers = 1;
  lagom::runtime runtime(options);

  long entries = 0;
  double share = 0;
  std::vector<double> alone, together;
  runtime.run([&] {
    alone = serve_requests(200);

    lagom::attributes background;
    background.name = "indexer";
    background.policy = lagom::policy::idle;
    lagom::fiber indexer = lagom::spawn(background, build_index, std::ref(entries));
    const auto begin = clock_type::now();
    together = serve_requests(200);
    const std::chrono::duration<double> window = clock_type::now() - begin;
    share = std::chrono::duration<double>(indexer.stats().cpu_time).count() / window.count();
    indexer.request_stop();
    indexer.join();
  });

  print("alone:", alone);
  print("with an indexer:", together);
  std::printf("the indexer made %ld entries in %.0f %% of the time\n", entries, 100 * share);
  // It works in the gaps, 95 % of the time, and does not delay requests by a slice. (Other programs may: the best tenth.)
  return entries > 0 && share > 0.5 && together[together.size() / 10] < 500 ? 0 : 1;
}
