// SPDX-License-Identifier: BSL-1.0
// One operation: this_fiber::yield() of one of two fibers, that is one pick and one switch.
#include "gate.hpp"

int main(int argc, char** argv) {
  return lagom::bench::run_gate(argc, argv, [](std::uint64_t operations) {
    std::uint64_t turns = 0;
    const auto take_turns = [&turns, operations] {
      while (turns < operations) {
        ++turns;
        lagom::this_fiber::yield();
      }
    };
    lagom::fiber one(take_turns);
    lagom::fiber other(take_turns);
    one.join();
    other.join();
    return turns;
  });
}
