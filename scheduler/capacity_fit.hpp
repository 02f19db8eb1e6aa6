// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

#include "clamp.hpp"

// On a machine with CPUs of several speeds: which of them is fast enough for whom. A capacity is a CPU's speed, 1 … 1024.
namespace lagom::scheduler {

// Ordered: more is better.
enum class fit : std::uint8_t {
  too_small,  // it would be busy all the time
  unmet_min,  // fast enough for what it does, slower than its min clamp asks for
  whole,
};

// A fifth of a CPU stays free, or its utilization could never be seen to grow.
[[nodiscard]] constexpr bool has_room(unsigned util, unsigned capacity) { return util * 1280 < capacity * 1024; }

// By more than 5 %: kinds nearer than that are one.
[[nodiscard]] constexpr bool is_bigger(unsigned capacity, unsigned than) { return capacity * 1024 > than * 1078; }

// A max clamp that a CPU can serve makes it fast enough whatever the utilization: its owner has asked for no more. A max
// of 1024 is no such wish, so the fastest CPU is judged by its room.
[[nodiscard]] constexpr fit fits(unsigned util, clamp_range clamp, unsigned capacity) {
  const bool is_capped = clamp.max <= capacity && !(clamp.max == capacity_scale && capacity == capacity_scale);
  if (!is_capped && !has_room(util, capacity)) {
    return fit::too_small;
  }
  const unsigned wanted = std::min(clamp.min, clamp.max);
  return util < wanted && wanted > capacity ? fit::unmet_min : fit::whole;
}

// Should a running entity be moved to a bigger CPU if one of those it may use is free? `largest` is the best of them.
[[nodiscard]] constexpr bool is_misfit(unsigned util, clamp_range clamp, unsigned capacity, unsigned largest) {
  return is_bigger(largest, capacity) && fits(util, clamp, capacity) != fit::whole;
}

enum class kind_preference : std::uint8_t {
  fastest,     // the largest first, always
  thriftiest,  // the smallest that fits
};

// The order in which to look for an idle CPU of each kind: writes the indexes of `capacities` into `order`.
//   fastest, or a min clamp: from the largest down.
//   thriftiest: the smallest that fits, then upward; then those that do not fit, from the largest down.
// REQUIRES: order.size() == capacities.size(), which are below 256. O(kinds²): there are two or three.
inline void order_kinds(std::span<const std::uint16_t> capacities, unsigned util, clamp_range clamp, kind_preference mode,
                        std::span<std::uint8_t> order) {
  assert(order.size() == capacities.size());
  assert(capacities.size() < 256);
  const bool is_downward = mode == kind_preference::fastest || clamp.min > 0;
  const auto comes_before = [&](std::uint8_t a, std::uint8_t b) {
    const bool a_fits = !is_downward && fits(util, clamp, capacities[a]) == fit::whole;
    const bool b_fits = !is_downward && fits(util, clamp, capacities[b]) == fit::whole;
    if (a_fits != b_fits) {
      return a_fits;
    }
    return a_fits ? capacities[a] < capacities[b] : capacities[a] > capacities[b];
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::size_t at = i;
    for (; at > 0 && comes_before(static_cast<std::uint8_t>(i), order[at - 1]); --at) {
      order[at] = order[at - 1];
    }
    order[at] = static_cast<std::uint8_t>(i);
  }
}

}  // namespace lagom::scheduler
