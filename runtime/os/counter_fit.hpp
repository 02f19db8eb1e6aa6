// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

namespace lagom::os {

// A counter's value and the kernel's time at nearly the same moment.
struct clock_reading {
  std::uint64_t ticks = 0;
  std::int64_t ns = 0;
};

// Turns counter values into the kernel's time by a line through the last reading. Pure arithmetic: readings come in
// as arguments, so tests can play every kind of bad counter.
//
// Each reading opens a window in which the line holds: 1 ms, shorter while the slope is known from a short span only,
// so that the error of the slope never exceeds the error of a reading. The line never goes backwards: if it ran ahead,
// it is made flatter, so that both meet at the window's end, or level until they do. A reading that contradicts the
// line grossly voids the span the slope was measured over; too many of those, and the counter is given up.
class counter_fit {
 public:
  counter_fit() noexcept = default;  // covers nothing, trusts nothing

  // The slope comes from the two; the line starts at `here`. Trusts nothing if they make no sense.
  counter_fit(const clock_reading& first, const clock_reading& here) noexcept;

  [[nodiscard]] bool covers(std::uint64_t ticks) const noexcept { return ticks - anchor_.ticks < window_ticks_; }

  // REQUIRES: covers(ticks).
  [[nodiscard]] std::int64_t at(std::uint64_t ticks) const noexcept {
    return shown_ns_ + static_cast<std::int64_t>(((ticks - anchor_.ticks) * slope_shown_) >> fraction_bits);
  }

  // Opens the next window. Afterwards at(here.ticks) is no less than anything at() has said. False: the counter has
  // been given up just now; floor_ns() is that bound.
  bool anchor(const clock_reading& here) noexcept;

  [[nodiscard]] bool trusts_counter() const noexcept { return slope_ != 0; }
  [[nodiscard]] std::int64_t floor_ns() const noexcept { return shown_ns_; }

 private:
  // window_ticks_ is at most 2^26 and slopes are at most 2^37, so the product in at() fits.
  static constexpr unsigned fraction_bits = 32;

  void learn_slope(const clock_reading& here) noexcept;
  [[nodiscard]] bool contradicts(const clock_reading& here) const noexcept;
  void open_window(const clock_reading& here) noexcept;

  clock_reading anchor_;
  std::uint64_t window_ticks_ = 0;
  std::uint64_t slope_shown_ = 0;  // nanoseconds per tick, 32 fractional bits; flatter while ahead
  std::int64_t shown_ns_ = 0;      // at the anchor; later than anchor_.ns while ahead

  std::uint64_t slope_ = 0;  // undisturbed; 0: not trusted
  clock_reading older_;      // the slope is measured from here …
  clock_reading newer_;      // … and will be from here when older_ is too old
  unsigned contradictions_ = 0;
};

}  // namespace lagom::os
