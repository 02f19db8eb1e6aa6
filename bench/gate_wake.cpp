// SPDX-License-Identifier: BSL-1.0
// One operation: a fiber wakes another that waits on a semaphore, then waits itself: one park, one wake, one switch.
#include "wake_pair.hpp"

int main(int argc, char** argv) {
  return lagom::bench::run_gate(argc, argv, [](std::uint64_t operations) { return lagom::bench::wake_each_other(operations, {}); });
}
