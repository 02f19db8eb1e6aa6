// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string_view>

namespace lagom::bench {

/// What a workload runs on: fibers of a lagom runtime, or plain OS threads.
enum class backend { fiber, thread };

constexpr std::string_view name_of(backend which) noexcept { return which == backend::fiber ? "fiber" : "thread"; }

/// Plural, for sentences such as "# 10 groups == 400 fibers run".
constexpr std::string_view plural_of(backend which) noexcept { return which == backend::fiber ? "fibers" : "threads"; }

/// Quantiles of a waiting time, in microseconds.
struct latencies {
  double p50_us = 0;
  double p99_us = 0;
  double p999_us = 0;
  double max_us = 0;
};

/// One repetition of a workload on one backend. What has no value was not measured.
struct measurement {
  double seconds = 0;             ///< from "go" until everything was done
  double cpu_seconds = 0;         ///< user and system time of the whole process in that span
  std::uint64_t ops = 0;          ///< what the workload counts: messages, round trips, yields, spawns
  std::uint64_t switches = 0;     ///< fiber switches, or the kernel's context switches of the threads
  std::uint64_t os_switches = 0;  ///< the kernel's context switches, of the workers too
  std::uint64_t max_rss_kb = 0;   ///< peak of the repetition's own process
  std::optional<latencies> latency{};
  std::optional<double> handovers{};  ///< yield: share of turns that really followed somebody else's
};

/// A workload's self-check did not hold: the numbers mean nothing.
class check_failed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The command line asks for something that cannot be; nothing has been started.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace lagom::bench
