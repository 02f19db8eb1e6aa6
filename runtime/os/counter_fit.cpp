// SPDX-License-Identifier: BSL-1.0
#include "counter_fit.hpp"

#include <algorithm>
#include <cmath>

namespace lagom::os {
namespace {

__extension__ typedef unsigned __int128 wide;  // -Wpedantic knows no other way to say it

constexpr std::int64_t window_ns = 1'000'000;
constexpr std::int64_t first_window_ns = 10'000;
constexpr std::uint64_t window_ticks_max = std::uint64_t{1} << 26;
constexpr std::uint64_t slope_max = std::uint64_t{1} << 37;  // 32 ns per tick

// The slope is measured over one to two of these: long enough for the error of a reading (tens of ns) to vanish, short
// enough to follow the kernel when it slews its clock.
constexpr std::int64_t span_ns = 1'000'000'000;

// A reading contradicts if it is off by more than this, beyond what the kernel's slewing (at most 0.05 % by adjtime,
// once more for its catching up) and the readings' errors can explain.
constexpr double contradiction_ns = 50'000;
constexpr double slew_max = 0.001;
constexpr double reading_error_ns = 1'000;
constexpr unsigned contradictions_max = 64;  // within one span

// Nanoseconds per tick, 32 fractional bits; 0 if it cannot be told.
std::uint64_t slope_between(const clock_reading& from, const clock_reading& to) noexcept {
  const std::uint64_t ticks = to.ticks - from.ticks;
  if (ticks == 0 || to.ns <= from.ns) {
    return 0;
  }
  const wide slope = (static_cast<wide>(to.ns - from.ns) << 32) / ticks;
  return slope > slope_max ? 0 : static_cast<std::uint64_t>(slope);
}

}  // namespace

counter_fit::counter_fit(const clock_reading& first, const clock_reading& here) noexcept
    : shown_ns_(here.ns), slope_(slope_between(first, here)), older_(first), newer_(first) {
  if (slope_ != 0) {
    open_window(here);
  }
}

bool counter_fit::anchor(const clock_reading& here) noexcept {
  // What at() may have said at most: it never looks past the window. (A counter set back looks like one that ran far
  // ahead.)
  const std::uint64_t covered = std::min(here.ticks - anchor_.ticks, window_ticks_);
  shown_ns_ += static_cast<std::int64_t>((covered * slope_shown_) >> fraction_bits);
  learn_slope(here);
  if (slope_ == 0) {
    window_ticks_ = 0;
    return false;
  }
  open_window(here);
  return true;
}

void counter_fit::learn_slope(const clock_reading& here) noexcept {
  if (contradicts(here)) {
    // Suspend, migration of the virtual machine, a counter set back: the measured span is void, the slope probably
    // still good.
    older_ = here;
    newer_ = here;
    if (++contradictions_ > contradictions_max) {
      slope_ = 0;
    }
    return;
  }
  if (here.ns > older_.ns) {
    slope_ = slope_between(older_, here);
  }
  if (here.ns - newer_.ns >= span_ns) {
    older_ = newer_;
    newer_ = here;
    contradictions_ = 0;
  }
}

// Whether the counter says a quite different time has passed since the anchor than the kernel does.
bool counter_fit::contradicts(const clock_reading& here) const noexcept {
  const auto real = static_cast<double>(here.ns - anchor_.ns);
  const double counted = static_cast<double>(here.ticks - anchor_.ticks) * static_cast<double>(slope_) /
                         static_cast<double>(std::uint64_t{1} << fraction_bits);
  const double span = std::max(static_cast<double>(anchor_.ns - older_.ns), reading_error_ns);
  const double tolerated = contradiction_ns + real * (slew_max + reading_error_ns / span);
  return std::abs(counted - real) > tolerated;
}

void counter_fit::open_window(const clock_reading& here) noexcept {
  const std::int64_t length = std::clamp(here.ns - older_.ns, first_window_ns, window_ns);
  const wide ticks = (static_cast<wide>(length) << fraction_bits) / slope_;
  window_ticks_ = static_cast<std::uint64_t>(std::min(ticks, static_cast<wide>(window_ticks_max)));
  anchor_ = here;
  shown_ns_ = std::max(shown_ns_, here.ns);
  const std::int64_t ahead = std::min(shown_ns_ - here.ns, length);
  const auto kept = static_cast<wide>(length - ahead);
  slope_shown_ = static_cast<std::uint64_t>(slope_ * kept / static_cast<std::uint64_t>(length));
}

}  // namespace lagom::os
