// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "gate.hpp"

namespace lagom::bench {

/// Two fibers, the caller and another of these attributes, wake each other by semaphores, `operations` times in all: one park, one
/// wake, one switch each. Returns how often.
inline std::uint64_t wake_each_other(std::uint64_t operations, const attributes& of_the_other) {
  binary_semaphore there(0);
  binary_semaphore back(0);
  std::uint64_t wakes = 0;
  fiber other(of_the_other, [&] {
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
}

}  // namespace lagom::bench
