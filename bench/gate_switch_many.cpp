// SPDX-License-Identifier: BSL-1.0
// One operation: this_fiber::yield() of one of a thousand fibers. What it costs above gate_switch is the run queue's
// depth.
#include <vector>

#include "gate.hpp"

int main(int argc, char** argv) {
  return lagom::bench::run_gate(argc, argv, [](std::uint64_t operations) {
    constexpr int fibers = 1000;
    std::uint64_t turns = 0;
    std::vector<lagom::fiber> all;
    all.reserve(fibers);
    for (int number = 0; number < fibers; ++number) {
      all.emplace_back([&turns, operations] {
        while (turns < operations) {
          ++turns;
          lagom::this_fiber::yield();
        }
      });
    }
    for (auto& one : all) {
      one.join();
    }
    return turns;
  });
}
