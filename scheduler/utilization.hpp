// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include "clamp.hpp"
#include "virtual_time.hpp"

namespace lagom::scheduler {

// How much of a CPU somebody uses, 0 … 1024, as an average that forgets half of itself in 32 periods of 2^20 ns (about
// 34 ms): Linux's per-entity load tracking (PELT) in a lazy form. Linux adds up at every switch, in steps of 1024 ns, which at
// bursts of a microsecond credits time to whoever happens to run at the edge of a step. Here the caller's own count of
// service is enough: a switch costs nothing, and now and then whole periods are folded in, the service since the last time
// spread evenly over them.
//
// Within 10 of Linux's figure (1 %) if folded whenever a stint ends or begins that is a period after the last fold, or every
// 4 ms over anything finer than that; within 28 over 16 ms; tests/golden/pelt/.
// A plain value of 16 bytes; O(1).
class utilization {
 public:
  static constexpr unsigned period_bits = 20;

  constexpr utilization() = default;
  // Of somebody who has had `service` ns until `now` and of whom it is assumed that they use `value`.
  constexpr utilization(nanos now, nanos service, unsigned value)
      : value_(raw_of(value)), period_(period_at(now)), counted_(service) {}

  // A period is over since the last fold.
  [[nodiscard]] constexpr bool is_due(nanos now) const { return period_at(now) != period_; }
  // Takes the whole periods until `now` into account. `service` is what was received since the beginning of time, running
  // stint included.
  void fold(nanos now, nanos service);
  [[nodiscard]] constexpr unsigned value() const { return value_ >> fraction_bits; }
  // What value() would be after a fold.
  [[nodiscard]] unsigned at(nanos now, nanos service) const {
    utilization then = *this;
    then.fold(now, service);
    return then.value();
  }

  // For whoever must keep it in atomic words.
  [[nodiscard]] constexpr std::uint64_t packed() const { return static_cast<std::uint64_t>(value_) << 32 | period_; }
  [[nodiscard]] constexpr nanos counted() const { return counted_; }
  [[nodiscard]] static constexpr utilization unpack(std::uint64_t packed, nanos counted) {
    utilization u;
    u.value_ = static_cast<std::uint32_t>(packed >> 32);
    u.period_ = static_cast<std::uint32_t>(packed);
    u.counted_ = counted;
    return u;
  }
  // The exact figure in 2^-22, for tests.
  [[nodiscard]] constexpr std::uint32_t raw() const { return value_; }

 private:
  static constexpr unsigned fraction_bits = 22;
  static constexpr std::uint32_t period_at(nanos t) { return static_cast<std::uint32_t>(t >> period_bits); }
  static constexpr std::uint32_t raw_of(unsigned value) {
    return value >= capacity_scale ? ~std::uint32_t{0} : static_cast<std::uint32_t>(value) << fraction_bits;
  }

  std::uint32_t value_ = 0;
  std::uint32_t period_ = 0;  // folded up to its beginning; wraps after 52 days, and who sleeps that long has forgotten all
  nanos counted_ = 0;         // service accounted for
};

// y^periods of v, where y^32 = 1/2, rounded down as Linux does (even 0 periods lose a little).
[[nodiscard]] std::uint64_t decayed(std::uint64_t v, std::uint32_t periods);

// What a fiber is expected to use when it wakes: the utilization it had when it went to sleep, which rises at once and
// falls by a quarter of the difference per sleep. `runnable`: the share of time it was runnable; well above its utilization
// it was starved, not small, and nothing is learnt. As Linux's util_est since 6.8.
[[nodiscard]] constexpr unsigned estimate_after_sleep(unsigned estimate, unsigned used, unsigned runnable) {
  constexpr unsigned margin = capacity_scale / 100;
  if (used >= estimate) return used;
  const unsigned excess = estimate - used;
  if (excess < margin || used + margin < runnable) return estimate;
  return (estimate * 4 - excess) / 4;
}

}  // namespace lagom::scheduler
