// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstdint>

#include "measurement.hpp"

namespace lagom::bench {

/// CPUs this process may run on.
std::uint64_t allowed_cpus();

/// Confines this process to the first `count` of its allowed CPUs (0 or more than there are: leaves it as it is).
/// Threads started later inherit it. Throws std::system_error.
void confine_to_cpus(std::uint64_t count);

/// How many more OS threads can exist, by the tightest of the kernel's limits; an upper bound.
std::uint64_t thread_limit();

/// How many descriptors this process may hold. `raise_descriptor_limit` sets the soft limit to the hard one.
std::uint64_t descriptor_limit();
void raise_descriptor_limit();

/// Memory that can be had without swapping, in bytes.
std::uint64_t available_memory();

/// Wall time, CPU time and the kernel's context switches of this process over a span.
class stopwatch {
 public:
  stopwatch();
  /// The span so far. `switches` is left to the caller.
  measurement read() const;

 private:
  std::chrono::steady_clock::time_point start_;
  double cpu_seconds_;
  std::uint64_t os_switches_;
};

}  // namespace lagom::bench
