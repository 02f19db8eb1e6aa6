// SPDX-License-Identifier: BSL-1.0
#include "clock.hpp"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstring>

#include "assert.hpp"

namespace lagom::os {
namespace {

constexpr std::int64_t calibration_ns = 20'000;
constexpr int tries_per_anchor = 4;

std::int64_t read_clock(clockid_t id) noexcept {
  timespec time{};
  const int result = ::clock_gettime(id, &time);
  LAGOM_ASSERT(result == 0);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

bool clock_source_is(const char* name) noexcept {
  const int file = ::open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return false;
  }
  char text[32] = {};
  const ssize_t length = ::read(file, text, sizeof text - 1);
  ::close(file);
  if (length <= 0) {
    return false;
  }
  text[std::strcspn(text, "\n")] = '\0';
  return std::strcmp(text, name) == 0;
}

// The kernel watches its clock source against others and drops it when it is unsteady: its trust is our test.
bool counter_is_a_clock() noexcept {
#if defined(__x86_64__)
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned invariant_tsc = 1U << 8;
  if (__get_cpuid(0x80000007U, &a, &b, &c, &d) == 0 || (d & invariant_tsc) == 0) {
    return false;
  }
  return clock_source_is("tsc");
#elif defined(__aarch64__)
  return clock_source_is("arch_sys_counter");
#else
  return false;
#endif
}

// The kernel's clock, read between two looks at the counter.
struct pair_of_readings {
  clock_reading middle;
  std::uint64_t gap = ~std::uint64_t{0};  // between the two looks: wide if interrupted
};

// The narrowest of some tries, or the first that is narrow enough.
pair_of_readings read_both(std::uint64_t narrow_ticks, int tries) noexcept {
  pair_of_readings best;
  for (int i = 0; i < tries && best.gap > narrow_ticks; ++i) {
    const std::uint64_t before = ticks();
    const std::int64_t ns = monotonic_ns();
    const std::uint64_t gap = ticks() - before;
    if (gap < best.gap) {
      best = {{before + gap / 2, ns}, gap};
    }
  }
  return best;
}

struct process_counter {
  bool usable = false;
  pair_of_readings first;
  std::uint64_t per_us = 1000;
};

process_counter measure() noexcept {
  constexpr int tries = 16;  // the first ones meet cold code
  process_counter counter;
  counter.usable = counter_is_a_clock();
  counter.first = read_both(0, tries);
  const clock_reading& from = counter.first.middle;
  clock_reading last = from;
  while (last.ns - from.ns < calibration_ns) {
    last = read_both(counter.first.gap * 2, tries).middle;
  }
  const std::uint64_t passed = last.ticks - from.ticks;
  counter.per_us = std::max<std::uint64_t>(1, passed * 1000 / static_cast<std::uint64_t>(last.ns - from.ns));
  return counter;
}

// Measured once, by whoever asks first.
const process_counter& counter() noexcept {
  static const process_counter measured = measure();
  return measured;
}

}  // namespace

std::int64_t monotonic_ns() noexcept { return read_clock(CLOCK_MONOTONIC); }

std::int64_t thread_cpu_ns() noexcept { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

std::uint64_t ticks_per_us() noexcept { return counter().per_us; }

fast_clock::fast_clock() noexcept {
  const process_counter& process = counter();
  if (process.usable) {
    narrow_ticks_ = process.first.gap * 2;
    fit_ = counter_fit(process.first.middle, read_both(narrow_ticks_, tries_per_anchor).middle);
  }
}

std::int64_t fast_clock::anchor() noexcept {
  if (fit_.trusts_counter()) {
    const pair_of_readings both = read_both(narrow_ticks_, tries_per_anchor);
    // Narrow means up to twice the usual. Moves slowly, so that one lucky pair does not make all others try in vain.
    const std::uint64_t step = narrow_ticks_ / 8 + 1;
    narrow_ticks_ = both.gap > narrow_ticks_ ? narrow_ticks_ + step : std::max(both.gap * 2, narrow_ticks_ - step);
    if (fit_.anchor(both.middle)) {
      return fit_.at(both.middle.ticks);
    }
    latest_ns_ = fit_.floor_ns();
  }
  latest_ns_ = std::max(latest_ns_, monotonic_ns());
  return latest_ns_;
}

}  // namespace lagom::os
