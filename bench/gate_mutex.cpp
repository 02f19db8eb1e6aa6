// SPDX-License-Identifier: BSL-1.0
// One operation: lock and unlock of a mutex nobody else wants.
#include <mutex>

#include "gate.hpp"

int main(int argc, char** argv) {
  return lagom::bench::run_gate(argc, argv, [](std::uint64_t operations) {
    lagom::mutex mutex;
    std::uint64_t sections = 0;
    for (std::uint64_t number = 0; number < operations; ++number) {
      const std::lock_guard lock(mutex);
      ++sections;
    }
    return sections;
  });
}
