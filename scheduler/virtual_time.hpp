// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <compare>
#include <cstdint>

namespace lagom::scheduler {

// Real time and real durations, nanoseconds. Virtual ones are types of their own below, so the two cannot mix.
using nanos = std::int64_t;

// Sums and products that 64 bits cannot hold. __extension__: -Wpedantic does not know the type.
__extension__ using wide = __int128;
__extension__ using unsigned_wide = unsigned __int128;

// Virtual times are counted in 2^-10 ns: at bursts of 100 ns whole nanoseconds would undercharge heavy weights by 13 %.
inline constexpr unsigned virtual_time_bits = 10;

// A distance on a run queue's virtual line. A fiber of nice 0 moves 2^10 of these per real nanosecond.
struct virtual_span {
  std::int64_t ticks = 0;

  friend constexpr auto operator<=>(virtual_span, virtual_span) = default;
  friend constexpr virtual_span operator+(virtual_span a, virtual_span b) noexcept { return {a.ticks + b.ticks}; }
  friend constexpr virtual_span operator-(virtual_span a, virtual_span b) noexcept { return {a.ticks - b.ticks}; }
  friend constexpr virtual_span operator-(virtual_span a) noexcept { return {-a.ticks}; }
};

// A point on a run queue's virtual line. It wraps (after 208 days of nice 0), so there is no < of two points, only the
// sign of their distance; points of different run queues have nothing to do with each other.
struct virtual_time {
  std::uint64_t ticks = 0;

  friend constexpr bool operator==(virtual_time, virtual_time) = default;
  friend constexpr virtual_span operator-(virtual_time a, virtual_time b) noexcept {
    return {static_cast<std::int64_t>(a.ticks - b.ticks)};
  }
  friend constexpr virtual_time operator+(virtual_time a, virtual_span b) noexcept {
    return {a.ticks + static_cast<std::uint64_t>(b.ticks)};
  }
  friend constexpr virtual_time operator-(virtual_time a, virtual_span b) noexcept {
    return {a.ticks - static_cast<std::uint64_t>(b.ticks)};
  }
};

[[nodiscard]] constexpr bool is_before(virtual_time a, virtual_time b) noexcept { return (a - b).ticks < 0; }
[[nodiscard]] constexpr virtual_time earlier(virtual_time a, virtual_time b) noexcept { return is_before(b, a) ? b : a; }

}  // namespace lagom::scheduler
