// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

// Every number the workers steer by, in one place. docs/constants.md has the curve or the reason behind each.
namespace lagom {
inline namespace v0 {
namespace detail {

/// What it costs until a sleeping worker runs is measured (wake_cost.hpp), from here on: 30 µs on virtual machines (an interrupt
/// and the end of a halt), a few on bare metal. Work that waits less than this is not worth a notification.
inline constexpr std::int64_t wake_cost_start_ns = 30'000;
inline constexpr std::int64_t wake_cost_min_ns = 2'000;
inline constexpr std::int64_t wake_cost_max_ns = 200'000;
/// Weight of the newest measurement in the moving average, as a shift.
inline constexpr unsigned wake_cost_shift = 3;
/// Wake-ups made at the start only to measure them.
inline constexpr unsigned wake_cost_trials = 2;
/// An idle worker looks for work this long before it sleeps: about the cost of being woken.
inline constexpr std::int64_t spin_ns = 20'000;
/// A thief looks at so many of those that wait at one worker for the first who suits.
inline constexpr unsigned theft_search_max = 256;
/// An idle worker also looks at this many of its neighbours that are not overloaded; at more only by invitation.
inline constexpr unsigned probe_max = 4;
/// A busy worker compares its load with one other's this often, give or take a quarter (scheduler/balancing.hpp, pull).
inline constexpr std::int64_t even_out_interval_ns = 4'000'000;
/// One time in so many it is not a worker of the same last-level cache.
inline constexpr unsigned even_out_far_one_in = 4;
/// A busy worker looks at its descriptors this often (a look costs 0.1 µs).
inline constexpr std::int64_t poll_interval_ns = 50'000;
/// Weight of the newest stint in the moving average, as a shift.
inline constexpr unsigned stint_shift = 3;
/// The monitor looks this often while somebody waits and somebody sleeps …
inline constexpr std::int64_t monitor_tick_ns = 1'000'000;
/// … and at most this rarely while any worker is awake.
inline constexpr std::int64_t monitor_tick_max_ns = 4'000'000;
/// How often the number of CPUs and the quota are looked at, while anybody is awake.
inline constexpr std::int64_t follow_interval_ns = 1'000'000'000;
/// Fibers taken from a worker that is held in one go: the queue lock is held meanwhile.
inline constexpr unsigned evacuation_batch = 32;
/// Work that nobody else can take must have waited this many times rescue_after before a substitute worker is called: one more
/// thread than CPUs costs its share of somebody's time.
inline constexpr int substitute_patience = 2;
/// A worker whose thread gets no CPU from the system counts as held after this many times rescue_after.
inline constexpr int starvation_patience = 10;
/// Free blocks and stacks a worker keeps for itself; what is above goes to the others by halves.
inline constexpr unsigned worker_cache_max = 128;
/// Nothing that could wake a fiber for this long: the deadlock report.
inline constexpr std::int64_t deadlock_after_ns = 1'000'000'000;

/// Threads of the blocking() pool: unless told otherwise, and at most (threads are the kernel's to bound below that).
inline constexpr unsigned blocking_threads_default = 64;
inline constexpr unsigned blocking_threads_max = 32'768;
/// An idle thread of that pool ends after this.
inline constexpr std::int64_t blocking_keep_alive_ns = 1'000'000'000;

}  // namespace detail
}  // namespace v0
}  // namespace lagom
