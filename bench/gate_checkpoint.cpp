// SPDX-License-Identifier: BSL-1.0
// One operation: a checkpoint of a fiber that is alone: what a preemption point costs a loop that need not give way.
#include "gate.hpp"

int main(int argc, char** argv) {
  return lagom::bench::run_gate(argc, argv, [](std::uint64_t operations) {
    std::uint64_t checkpoints = 0;
    for (std::uint64_t number = 0; number < operations; ++number) {
      lagom::this_fiber::checkpoint();
      ++checkpoints;
    }
    return checkpoints;
  });
}
