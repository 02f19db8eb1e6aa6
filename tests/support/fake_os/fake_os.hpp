// SPDX-License-Identifier: BSL-1.0
#pragma once

// A twin of runtime/os for deterministic tests: the same symbols, linked in front of the real ones. One thread; time
// stands still until the test moves it; nothing ever sleeps. Threads are bodies that run when the test says so.
// Memory, limits, signals and assertions have no time and never sleep: those remain the real ones.
// Not faked, because inline: os::ticks() is the real counter; use it for nothing a test depends on.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "os/poller.hpp"

namespace lagom::fake_os {

// Everything as at the start: time, counters, threads that have not run, readiness. Pollers must be gone.
void reset();

// Time. It starts at a value far from 0, so that a forgotten "0 = none" shows.
inline constexpr std::int64_t time_at_start = 1'000'000'000'000;
[[nodiscard]] std::int64_t now() noexcept;
void advance(std::int64_t nanoseconds);  // REQUIRES: not negative
void advance_to(std::int64_t time);      // REQUIRES: not in the past

// Descriptors need not exist. Readiness of one, for all pollers: stays until changed; a call is an edge.
void set_ready(int descriptor, os::readiness ready);

// What wait() was asked: the proof that a worker would have slept, and how long.
struct wait_record {
  const os::poller* poller;
  std::int64_t timeout_ns;
  int events;
  bool notified;  // by notify(): would not have slept
};
[[nodiscard]] const std::vector<wait_record>& waits() noexcept;

// Called by each wait() that would have slept, after it was recorded; may advance time, notify, run threads. When it
// returns, the wait looks once more and returns.
void on_sleep(std::function<void(const wait_record&)> hook);

struct counters {
  std::uint64_t clock_reads = 0;
  std::uint64_t futex_waits = 0;  // that would have slept
  std::uint64_t futex_wakes = 0;
  std::uint64_t notifications = 0;
  std::uint64_t yields = 0;
};
[[nodiscard]] const counters& counts() noexcept;

// What os::set_thread_clamps() was asked, also if it failed; and how it and the probe are to fail (0: not).
struct clamp_call {
  int thread, min, max;
  std::int64_t time;
};
[[nodiscard]] const std::vector<clamp_call>& clamp_calls() noexcept;
void fail_clamps(int probe, int set) noexcept;

// Called by each futex_wait that would have slept; may change the word. Without it the wait returns as if woken for no
// reason, up to a limit that ends in an assertion: a test that only waits would never end.
void on_futex_sleep(std::function<void()> hook);

// Threads that were started and have not run.
[[nodiscard]] std::vector<std::string> waiting_threads();
// Runs the body of the oldest one of that name to its end, here. join() does so too, if need be.
void run_thread(const std::string& name);

}  // namespace lagom::fake_os
