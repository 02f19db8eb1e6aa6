// SPDX-License-Identifier: BSL-1.0
#include "clock.hpp"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "assert.hpp"

namespace lagom::os {
namespace {

constexpr std::int64_t window_ns = 1'000'000;
constexpr std::int64_t first_window_ns = 10'000;
// The rate is measured over one to two of these: long enough for the reading error (tens of ns) to vanish, short
// enough to follow the kernel when it slews its clock.
constexpr std::int64_t rate_span_ns = 1'000'000'000;
constexpr std::int64_t calibration_ns = 20'000;
// A counter that often disagrees by more than this, beyond what the kernel's slewing (at most 0.05 % by adjtime, once
// more for its catching up) and our reading can explain, is not a clock. Often: so many times within one rate span.
constexpr double surprise_ns = 50'000;
constexpr double slew_max = 0.001;
constexpr double reading_error_ns = 1'000;
constexpr unsigned surprises_max = 64;
constexpr std::uint64_t window_ticks_max = std::uint64_t{1} << 26;
constexpr std::uint64_t rate_max = std::uint64_t{1} << 37;  // 32 ns per tick

__extension__ typedef unsigned __int128 wide;  // -Wpedantic knows no other way to say it

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

// Nanoseconds per tick, 32 fractional bits; 0 if it cannot be told.
std::uint64_t rate_between(std::uint64_t ticks_passed, std::int64_t ns_passed) noexcept {
  if (ticks_passed == 0 || ns_passed <= 0) {
    return 0;
  }
  const auto scaled = static_cast<wide>(ns_passed) << 32;
  return static_cast<std::uint64_t>(scaled / ticks_passed);
}

// Both clocks at nearly the same moment: the kernel's, read between two looks at the counter.
struct reading {
  std::uint64_t ticks = 0;
  std::int64_t ns = 0;
  std::uint64_t gap = ~std::uint64_t{0};  // between the two looks: wide if interrupted
};

// The narrowest of some tries, or the first that is narrow enough.
reading read_both(std::uint64_t narrow_ticks, int tries) noexcept {
  reading best;
  for (int i = 0; i < tries && best.gap > narrow_ticks; ++i) {
    const std::uint64_t before = ticks();
    const std::int64_t ns = monotonic_ns();
    const std::uint64_t gap = ticks() - before;
    if (gap < best.gap) {
      best = {before + gap / 2, ns, gap};
    }
  }
  return best;
}

struct process_counter {
  bool usable = false;
  reading first;
  std::uint64_t per_us = 1000;
};

process_counter measure() noexcept {
  constexpr int tries = 16;  // the first ones meet cold code
  process_counter counter;
  counter.usable = counter_is_a_clock();
  counter.first = read_both(0, tries);
  reading last = counter.first;
  while (last.ns - counter.first.ns < calibration_ns) {
    last = read_both(counter.first.gap * 2, tries);
  }
  const std::uint64_t passed = last.ticks - counter.first.ticks;
  counter.per_us = std::max<std::uint64_t>(1, passed * 1000 / static_cast<std::uint64_t>(last.ns - counter.first.ns));
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
  anchor_ns_ = std::numeric_limits<std::int64_t>::min();
  if (!process.usable) {
    return;
  }
  uses_counter_ = true;
  older_ = {process.first.ticks, process.first.ns};
  newer_ = older_;
  narrow_ticks_ = process.first.gap * 2;
  const moment here = sample();
  learn_rate(here);
  if (uses_counter_) {
    set_window(here, here.ns);
  }
}

fast_clock::moment fast_clock::sample() noexcept {
  constexpr int tries = 4;
  const reading both = read_both(narrow_ticks_, tries);
  // Narrow means up to twice the usual. Moves slowly, so that one lucky pair does not make all others try in vain.
  const std::uint64_t step = narrow_ticks_ / 8 + 1;
  narrow_ticks_ = both.gap > narrow_ticks_ ? narrow_ticks_ + step : std::max(both.gap * 2, narrow_ticks_ - step);
  return {both.ticks, both.ns};
}

void fast_clock::learn_rate(const moment& here) noexcept {
  if (disagrees(here)) {
    // Suspend, migration of the virtual machine, a counter set back: the measured span is void, the rate probably
    // still good.
    older_ = here;
    newer_ = here;
    if (++surprises_ > surprises_max) {
      uses_counter_ = false;
    }
    return;
  }
  const std::uint64_t measured = rate_between(here.ticks - older_.ticks, here.ns - older_.ns);
  if (measured != 0) {
    rate_ = measured;
  }
  if (rate_ == 0 || rate_ > rate_max) {
    uses_counter_ = false;
    return;
  }
  if (here.ns - newer_.ns >= rate_span_ns) {
    older_ = newer_;
    newer_ = here;
    surprises_ = 0;
  }
}

// Whether the counter says a quite different time has passed since the last anchor than the kernel does.
bool fast_clock::disagrees(const moment& here) const noexcept {
  if (rate_ == 0) {
    return false;
  }
  const auto real = static_cast<double>(here.ns - anchor_true_ns_);
  const auto counted = static_cast<double>(here.ticks - anchor_ticks_) * static_cast<double>(rate_) /
                       static_cast<double>(std::uint64_t{1} << fraction_bits);
  const double span = std::max(static_cast<double>(anchor_true_ns_ - older_.ns), 1000.0);
  const double tolerated = surprise_ns + real * (slew_max + reading_error_ns / span);
  return std::abs(counted - real) > tolerated;
}

// Starts a window at `here`. floor_ns is the latest time that may have been returned so far.
void fast_clock::set_window(const moment& here, std::int64_t floor_ns) noexcept {
  // A rate measured over a short time is used for no longer than that, so its error stays the reading error.
  const std::int64_t length = std::clamp(here.ns - older_.ns, first_window_ns, window_ns);
  const auto scaled = static_cast<wide>(length) << fraction_bits;
  window_ticks_ = std::min(static_cast<std::uint64_t>(scaled / rate_), window_ticks_max);
  anchor_ticks_ = here.ticks;
  anchor_true_ns_ = here.ns;
  anchor_ns_ = std::max(here.ns, floor_ns);
  // Ahead of the kernel: run slower by what makes both meet at the window's end, or stand still until they do.
  const std::int64_t ahead = std::min(anchor_ns_ - here.ns, length);
  const auto kept = static_cast<wide>(length - ahead);
  multiplier_ = static_cast<std::uint64_t>(rate_ * kept / static_cast<std::uint64_t>(length));
}

std::int64_t fast_clock::anchor() noexcept {
  if (uses_counter_) {
    const moment here = sample();
    // What now() may have returned at most: it never looks past the window. (A counter set back looks like one
    // that ran far ahead.)
    const std::uint64_t covered = std::min(here.ticks - anchor_ticks_, window_ticks_);
    anchor_ns_ += static_cast<std::int64_t>((covered * multiplier_) >> fraction_bits);
    learn_rate(here);
    if (uses_counter_) {
      set_window(here, anchor_ns_);
      return anchor_ns_;
    }
    window_ticks_ = 0;
  }
  anchor_ns_ = std::max(anchor_ns_, monotonic_ns());
  return anchor_ns_;
}

}  // namespace lagom::os
