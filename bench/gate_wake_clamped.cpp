// SPDX-License-Identifier: BSL-1.0
// As gate_wake, of fibers with clamps: each wake is counted in, each wait out.
#include "wake_pair.hpp"

int main(int argc, char** argv) {
  return lagom::bench::run_gate(argc, argv, [](std::uint64_t operations) {
    lagom::this_fiber::change({.util_min = 200, .util_max = 800});
    lagom::attributes clamped;
    clamped.util_min = 300;
    return lagom::bench::wake_each_other(operations, clamped);
  });
}
