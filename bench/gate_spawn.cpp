// SPDX-License-Identifier: BSL-1.0
// One operation: spawn and join of a fiber that does next to nothing, a hundred alive at once.
#include <algorithm>
#include <vector>

#include "gate.hpp"

int main(int argc, char** argv) {
  return lagom::bench::run_gate(argc, argv, [](std::uint64_t operations) {
    constexpr std::uint64_t batch = 100;
    std::uint64_t ran = 0;
    std::vector<lagom::fiber> alive;
    alive.reserve(batch);
    for (std::uint64_t left = operations; left > 0;) {
      const std::uint64_t count = std::min(batch, left);
      for (std::uint64_t number = 0; number < count; ++number) {
        alive.emplace_back([&ran] { ++ran; });
      }
      for (auto& one : alive) {
        one.join();
      }
      alive.clear();
      left -= count;
    }
    return ran;
  });
}
