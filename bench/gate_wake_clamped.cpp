// SPDX-License-Identifier: BSL-1.0
// As gate_wake, of fibers with clamps: each wake is counted in, each wait out.
#include "gate.hpp"

int main(int argc, char** argv) {
  return lagom::bench::run_gate(argc, argv, [](std::uint64_t operations) {
    lagom::this_fiber::change({.util_min = 200, .util_max = 800});
    lagom::binary_semaphore there(0);
    lagom::binary_semaphore back(0);
    std::uint64_t wakes = 0;
    lagom::attributes clamped;
    clamped.util_min = 300;
    lagom::fiber other(clamped, [&] {
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
