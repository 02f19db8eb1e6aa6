// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "virtual_time.hpp"

// Utilization clamps: what the entities of a run queue ask for together, and when to pass that on to somebody outside.
// docs/scheduling.md has the rules.
namespace lagom::scheduler {

// Utilization and capacity are counted in 1/1024 of the fastest CPU.
inline constexpr unsigned capacity_scale = 1024;

// What somebody's utilization is to be taken for: never below min, never above max. The default says nothing.
struct clamp_range {
  std::uint16_t min = 0;
  std::uint16_t max = capacity_scale;

  [[nodiscard]] constexpr bool is_neutral() const { return min == 0 && max == capacity_scale; }
  friend constexpr bool operator==(clamp_range, clamp_range) = default;
};

// The clamped entities of a run queue in 64 bits, so that it can be handed over in one piece.
struct clamp_summary {
  std::uint16_t top_min = 0, top_max = 0;  // the highest of each
  std::uint32_t clamped = 0;               // how many there are

  // What holds for a queue with so many runnable entities, the clamped ones among them: of both clamps the highest. Who
  // has none counts as {0, 1024}, so one of them lifts every cap. Neutral when nobody is runnable.
  [[nodiscard]] constexpr clamp_range among(std::size_t runnable) const {
    if (runnable == 0 || clamped == 0) {
      return {};
    }
    return {top_min, runnable > clamped ? std::uint16_t{capacity_scale} : top_max};
  }
};

// How many have which value, 0 … 1024. All verbs are O(1).
class clamp_levels {
 public:
  void add(std::uint16_t value);
  void remove(std::uint16_t value);  // REQUIRES: it is there
  // 0 if there is none.
  [[nodiscard]] std::uint16_t top() const { return top_; }

 private:
  [[nodiscard]] std::uint16_t find_top() const;

  std::array<std::uint32_t, capacity_scale + 1> count_{};
  std::array<std::uint64_t, capacity_scale / 64 + 1> used_{};  // one bit per value
  std::uint32_t used_words_ = 0;                               // one bit per word of used_
  std::uint16_t top_ = 0;
};

// The clamps of the runnable entities of one run queue, those without any left out: whoever has no clamp costs nothing.
// Exact at every moment, so the last boosted one takes its boost along when it leaves. (Linux counts in buckets: cheaper
// to store, but a bucket keeps its highest value until it is empty.) 8.5 KiB; whoever has clamped entities provides it.
//
// The last one that left is struck out when somebody asks, or another leaves: mostly the next that comes is the same.
class clamp_tally {
 public:
  // REQUIRES: not neutral.
  void add(clamp_range clamp) {
    if (clamp == leaving_) [[likely]] {
      leaving_ = {};
    } else {
      count(clamp);
    }
  }
  // REQUIRES: added before.
  void remove(clamp_range clamp) {
    if (!leaving_.is_neutral()) [[unlikely]] {
      strike(leaving_);
    }
    leaving_ = clamp;
  }
  [[nodiscard]] clamp_summary summary();

 private:
  void count(clamp_range clamp);
  void strike(clamp_range clamp);

  clamp_range leaving_{};  // neutral: nobody
  clamp_levels min_, max_;
  std::uint32_t clamped_ = 0;
};

// Decides when the clamps of a queue are passed on to whoever sets the speed of its CPU. Each call is dear (it takes the
// thread off its CPU for a moment), and queues change a million times a second: so the queue must have wanted more than
// it has for raise_after, or less, which harms nobody, for lower_after, and calls are call_interval apart. Nobody is asked
// while the queue is empty: what was passed on last stays, or each pause would lower and raise the speed again.
class clamp_forwarder {
 public:
  static constexpr nanos raise_after = 100'000;
  static constexpr nanos lower_after = 4'000'000;
  static constexpr nanos call_interval = 1'000'000;

  // What to pass on now, if anything; it counts as done. `now` never goes back.
  [[nodiscard]] std::optional<clamp_range> consider(clamp_range wanted, nanos now);
  [[nodiscard]] clamp_range passed_on() const { return passed_on_; }

 private:
  enum class direction : std::uint8_t { none, up, down };

  clamp_range passed_on_{};
  direction wanted_ = direction::none;  // away from passed_on_
  bool has_called_ = false;
  nanos wanted_since_ = 0, last_call_ = 0;
};

}  // namespace lagom::scheduler
