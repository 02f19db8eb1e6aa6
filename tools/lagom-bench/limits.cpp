// SPDX-License-Identifier: BSL-1.0
#include "limits.hpp"

#include <fmt/format.h>

#include "machine.hpp"
#include "measurement.hpp"

namespace lagom::bench {

namespace {

constexpr std::uint64_t kept_for_others = 64;  // descriptors and threads this process has anyway
constexpr std::uint64_t bytes_per_mb = 1'000'000;

}  // namespace

void require_threads(std::uint64_t count) {
  if (const auto limit = thread_limit(); count + kept_for_others > limit) {
    throw usage_error(
        fmt::format("the thread form would need {} OS threads, the limit here is {}; ask for fewer, or use "
                    "--backend fiber",
                    count, limit));
  }
}

void require_descriptors(std::uint64_t count) {
  if (const auto limit = descriptor_limit(); count + kept_for_others > limit) {
    throw usage_error(
        fmt::format("the thread form would need {} file descriptors, the limit here is {} (ulimit -Hn); ask "
                    "for fewer, or use --in-memory",
                    count, limit));
  }
}

void require_memory(std::uint64_t bytes) {
  if (const auto limit = available_memory(); bytes > limit) {
    throw usage_error(fmt::format("the fiber form would need about {} MB of memory, {} MB are available; ask for fewer",
                                  bytes / bytes_per_mb, limit / bytes_per_mb));
  }
}

}  // namespace lagom::bench
