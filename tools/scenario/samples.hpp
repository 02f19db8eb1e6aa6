// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace lagom::scenarios {

/// Durations, for quantiles. Keeps a limited number; beyond that a uniform random part of them, the same in every run.
class samples {
 public:
  void add(std::int64_t value) {
    ++count_;
    sum_ += value;
    if (value > max_) max_ = value;
    if (kept_.size() < kept_max) {
      kept_.push_back(value);
    } else {
      replace_one(value);
    }
  }

  std::int64_t count() const { return count_; }

  /// {n, mean, min, p50, p90, p95, p99, max, over_200us}, without figures when there are none. over_200us is the part
  /// greater than `late`. Sorts.
  nlohmann::ordered_json summary(std::int64_t late);

 private:
  static constexpr std::size_t kept_max = std::size_t{1} << 18;

  void replace_one(std::int64_t value);
  std::int64_t quantile(double part) const;

  std::vector<std::int64_t> kept_{};
  std::int64_t count_ = 0;
  std::int64_t sum_ = 0;
  std::int64_t max_ = 0;
  std::uint64_t random_ = 0x2545f4914f6cdd1d;
};

}  // namespace lagom::scenarios
