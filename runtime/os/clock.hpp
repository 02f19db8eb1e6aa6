// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <limits>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "counter_fit.hpp"

namespace lagom::os {

// As an expiry: never. Far enough to be compared like any other.
inline constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

// CLOCK_MONOTONIC in nanoseconds: does not jump, stands still while the machine sleeps. Any thread. About 20 ns.
[[nodiscard]] std::int64_t monotonic_ns() noexcept;

// CPU time of the calling thread, nanoseconds. A system call.
[[nodiscard]] std::int64_t thread_cpu_ns() noexcept;

// a + b, held at the ends of the range: an expiry computed from a huge duration is `never`, not long ago.
[[nodiscard]] constexpr std::int64_t saturating_add(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) {
    return sum;
  }
  return a > 0 ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int64_t>::min();
}

// As saturating_add, for durations given in a coarser unit: value * nanoseconds_per_unit.
[[nodiscard]] constexpr std::int64_t saturating_multiply(std::int64_t value, std::int64_t factor) noexcept {
  std::int64_t product = 0;
  if (!__builtin_mul_overflow(value, factor, &product)) {
    return product;
  }
  return (value < 0) == (factor < 0) ? std::numeric_limits<std::int64_t>::max()
                                     : std::numeric_limits<std::int64_t>::min();
}

// The CPU's raw counter; unordered with respect to the surrounding instructions. Where there is none, monotonic_ns().
// Not the test's time: under the fake OS it still counts.
[[nodiscard]] inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  std::uint64_t count = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count;
#else
  return static_cast<std::uint64_t>(monotonic_ns());
#endif
}

// Rate of ticks(), measured once per process (about 0.1 % exact): for short deadlines and spin budgets, not for time.
[[nodiscard]] std::uint64_t ticks_per_us() noexcept;

// A cheaper CLOCK_MONOTONIC: one counter read, one multiplication. One per worker thread; not shared.
//
// The counter is tied to CLOCK_MONOTONIC again after each window of about 1 ms of counter time (see counter_fit.hpp),
// so the two stay within about 0.2 us of each other, whatever happened to the counter in between: suspend, migration
// of the virtual machine, a debugger. It never goes backwards: being ahead is worked off by running slower.
// Where the kernel itself does not trust the counter as its clock source, now() is monotonic_ns().
class fast_clock {
 public:
  fast_clock() noexcept;

  [[nodiscard]] std::int64_t now() noexcept {
    const std::uint64_t counted = ticks();
    if (!fit_.covers(counted)) [[unlikely]] {
      return anchor();
    }
    return fit_.at(counted);
  }

  // False: now() reads the kernel's clock each time.
  [[nodiscard]] bool uses_counter() const noexcept { return fit_.trusts_counter(); }

 private:
  std::int64_t anchor() noexcept;

  counter_fit fit_;
  std::uint64_t narrow_ticks_ = 0;  // a pair of readings this close together is good
  std::int64_t latest_ns_ = 0;     // without counter: the last answer
};

}  // namespace lagom::os
