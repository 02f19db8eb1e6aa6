// SPDX-License-Identifier: BSL-1.0
// Does a switch slow down when the fibers' sticky floating-point flags differ? It did elsewhere, threefold: loading MXCSR
// is cheap only if it changes nothing. Two fibers yield to each other; in the second form one of them raises "inexact"
// before, so that a context switch which keeps the flags apart would have to load them each time. Prints medians of ns.
#include <algorithm>
#include <cfenv>
#include <chrono>
#include <cstdio>
#include <vector>

#include <lagom/lagom.hpp>

namespace {

constexpr int turns = 1'000'000;
constexpr int runs = 9;

double nanoseconds_per_yield(bool flags_differ) {
  lagom::runtime_options options{};
  options.workers = 1;
  lagom::runtime rt(options);
  return rt.run([&] {
    const auto take_turns = [](bool divides) {
      std::feclearexcept(FE_ALL_EXCEPT);
      if (divides) {
        volatile double third = 1.0;
        third = third / 3.0;
      }
      for (int turn = 0; turn < turns; ++turn) {
        lagom::this_fiber::yield();
      }
    };
    const auto begun = std::chrono::steady_clock::now();
    lagom::fiber one(take_turns, flags_differ);
    lagom::fiber other(take_turns, false);
    one.join();
    other.join();
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begun;
    return spent.count() / (2.0 * turns);
  });
}

double median(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

}  // namespace

int main() {
  std::vector<double> same, different;
  for (int run = 0; run < runs; ++run) {
    same.push_back(nanoseconds_per_yield(false));
    different.push_back(nanoseconds_per_yield(true));
  }
  std::printf("flags the same %.1f ns per yield, different %.1f, ratio %.2f\n", median(same), median(different),
              median(different) / median(same));
}
