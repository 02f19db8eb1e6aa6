// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <thread>
#include <vector>

#include "child.hpp"
#include "os/clock.hpp"
#include "os/thread.hpp"

namespace os = lagom::os;

namespace {

constexpr std::int64_t millisecond = 1'000'000;
constexpr std::int64_t min64 = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t max64 = std::numeric_limits<std::int64_t>::max();

struct comparison {
  bool ever_backwards = false;
  std::int64_t worst_error = 0;
  int readings = 0;
};

// Reads both clocks for a while. The error is how far now() lies outside what the kernel said just before and after,
// so being preempted in between does not count.
comparison compare(os::fast_clock& clock, std::int64_t duration) {
  comparison result;
  std::int64_t last = clock.now();
  const std::int64_t end = os::monotonic_ns() + duration;
  for (;;) {
    const std::int64_t before = os::monotonic_ns();
    const std::int64_t now = clock.now();
    const std::int64_t after = os::monotonic_ns();
    const std::int64_t error = now < before ? before - now : now > after ? now - after : 0;
    result.worst_error = std::max(result.worst_error, error);
    result.ever_backwards = result.ever_backwards || now < last;
    last = now;
    ++result.readings;
    if (after > end) {
      return result;
    }
  }
}

}  // namespace

TEST_CASE("saturating arithmetic holds at the ends") {
  CHECK(os::saturating_add(1, 2) == 3);
  CHECK(os::saturating_add(max64, 1) == max64);
  CHECK(os::saturating_add(max64 - 1, 1) == max64);
  CHECK(os::saturating_add(max64, max64) == os::never);
  CHECK(os::saturating_add(min64, -1) == min64);
  CHECK(os::saturating_add(max64, min64) == -1);
  CHECK(os::saturating_multiply(max64, 1) == max64);
  CHECK(os::saturating_multiply(max64 / 2, 1000) == max64);
  CHECK(os::saturating_multiply(min64, 1000) == min64);
  CHECK(os::saturating_multiply(-3, -4) == 12);
  CHECK(os::saturating_multiply(min64, -1) == max64);
}

TEST_CASE("the fast clock never goes backwards and stays near CLOCK_MONOTONIC") {
  os::fast_clock clock;
  const comparison result = compare(clock, 50 * millisecond);
  CHECK_FALSE(result.ever_backwards);
  CHECK(result.worst_error < millisecond);
  CHECK(result.readings > 10);
}

TEST_CASE("the fast clock is right again after a pause") {
  os::fast_clock clock;
  static_cast<void>(clock.now());
  os::thread_sleep_until(os::monotonic_ns() + 20 * millisecond);
  const std::int64_t before = os::monotonic_ns();
  const std::int64_t now = clock.now();
  const std::int64_t after = os::monotonic_ns();
  // Being late shows here at once; a window read on with the old anchor would be 20 ms off.
  CHECK(now >= before - millisecond);
  CHECK(now <= after + millisecond);
}

TEST_CASE("clocks of several threads agree") {
  // Each thread looks at its own clock, then at a shared last reading: no reading may be older than one that was
  // published before by more than the promised error.
  constexpr int threads = 3;
  std::vector<std::int64_t> worst(threads, 0);
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&worst, i] {
      os::fast_clock clock;
      worst[static_cast<std::size_t>(i)] = compare(clock, 20 * millisecond).worst_error;
    });
  }
  for (std::thread& each : running) {
    each.join();
  }
  for (const std::int64_t error : worst) {
    CHECK(error < millisecond);
  }
}

TEST_CASE("the fast clock works in a forked child") {
  os::fast_clock clock;
  static_cast<void>(clock.now());
  const auto result = lagom::tests::run_in_child([&clock] {
    const comparison compared = compare(clock, 5 * millisecond);
    ::_exit(compared.ever_backwards || compared.worst_error >= millisecond ? 1 : 0);
  });
  CHECK(result.exited_with(0));
}

TEST_CASE("the counter runs at about its measured rate") {
  const std::uint64_t per_us = os::ticks_per_us();
  REQUIRE(per_us > 0);
  const std::int64_t start = os::monotonic_ns();
  const std::uint64_t ticks = os::ticks();
  std::int64_t end = start;
  while (end - start < 10 * millisecond) {
    end = os::monotonic_ns();
  }
  const double us = static_cast<double>(os::ticks() - ticks) / static_cast<double>(per_us);
  // Loose: being preempted between the two readings adds to one of them only.
  CHECK(us > 5'000);
  CHECK(us >= static_cast<double>(end - start) / 1000.0 * 0.9);
}

TEST_CASE("thread CPU time counts work and not sleep") {
  const std::int64_t start = os::thread_cpu_ns();
  os::thread_sleep_until(os::monotonic_ns() + 50 * millisecond);
  const std::int64_t slept = os::thread_cpu_ns();
  CHECK(slept >= start);
  CHECK(slept - start < 40 * millisecond);
  while (os::thread_cpu_ns() - slept < 2 * millisecond) {
  }
  CHECK(os::thread_cpu_ns() > slept);
}
