// SPDX-License-Identifier: BSL-1.0
// One operation: a fiber wakes another that waits on a semaphore, then waits itself: one park, one wake, one switch.
#include "gate.hpp"

int main(int argc, char** argv) {
  return lagom::bench::run_gate(argc, argv, [](std::uint64_t operations) {
    lagom::binary_semaphore there(0);
    lagom::binary_semaphore back(0);
    std::uint64_t wakes = 0;
    lagom::fiber other([&] {
      for (std::uint64_t wake = 0; wake < operations / 2; ++wake) {
        there.acquire();
        ++wakes;
        back.release();
      }
    });
    for (std::uint64_t wake = 0; wake < operations / 2; ++wake) {
      there.release();
      back.acquire();
      ++wakes;
    }
    other.join();
    return wakes;
  });
}
