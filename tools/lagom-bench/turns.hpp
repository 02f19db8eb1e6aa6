// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "measurement.hpp"

namespace lagom::bench {

/// Whether turns are compared with one another: costs a shared cache line, so only where all share one CPU.
enum class watch_handovers { no, yes };

/// Members that do nothing but give way to one another, for a number of turns or a span of time.
class turns {
 public:
  /// `each` turns for every member; or, with `seconds` above 0, as many as fit.
  turns(std::size_t members, std::uint64_t each, double seconds, watch_handovers watch)
      : taken_(members), each_(each), seconds_(seconds), watch_(watch) {}

  /// The body of one member. `give_way` is what is measured.
  template <class GiveWay>
  void take(std::size_t member, const GiveWay& give_way) {
    if (seconds_ > 0) {
      take_timed(member, give_way);
    } else if (watch_ == watch_handovers::yes) {
      for (std::uint64_t turn = 0; turn < each_; ++turn) {
        note_turn(member);
        give_way();
      }
      taken_[member].turns = each_;
    } else {
      for (std::uint64_t turn = 0; turn < each_; ++turn) {
        give_way();
      }
      taken_[member].turns = each_;
    }
  }

  /// Turns of all members, after they are done. Throws check_failed when one had none.
  std::uint64_t total() const;

  /// Share of turns that came after somebody else's; 1 when every yield really gave way.
  double handovers() const;

 private:
  /// A cache line each, as members may be on different CPUs.
  struct alignas(64) record {
    std::uint64_t turns = 0;
    std::uint64_t handovers = 0;
  };

  void note_turn(std::size_t member) noexcept {
    taken_[member].handovers += last_.load(std::memory_order_relaxed) != member ? 1 : 0;
    last_.store(member, std::memory_order_relaxed);
  }

  template <class GiveWay>
  void take_timed(std::size_t member, const GiveWay& give_way) {
    using clock = std::chrono::steady_clock;
    constexpr std::uint64_t turns_per_clock_read = 256;
    const auto end = clock::now() + std::chrono::duration<double>(seconds_);
    std::uint64_t turn = 0;
    while (!is_over_.load(std::memory_order_relaxed)) {
      if (watch_ == watch_handovers::yes) {
        note_turn(member);
      }
      give_way();
      if (++turn % turns_per_clock_read == 0 && clock::now() >= end) {
        is_over_.store(true, std::memory_order_relaxed);
      }
    }
    taken_[member].turns = turn;
  }

  static constexpr std::size_t nobody = ~std::size_t{0};

  std::vector<record> taken_;
  std::uint64_t each_;
  double seconds_;
  watch_handovers watch_;
  alignas(64) std::atomic<std::size_t> last_{nobody};
  alignas(64) std::atomic<bool> is_over_{false};
};

}  // namespace lagom::bench
