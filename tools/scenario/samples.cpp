// SPDX-License-Identifier: BSL-1.0
#include "samples.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace lagom::scenarios {

void samples::replace_one(std::int64_t value) {
  // xorshift64: each of the count_ values so far is kept with the same probability.
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  const auto place = random_ % static_cast<std::uint64_t>(count_);
  if (place < kept_max) {
    kept_[place] = value;
  }
}

std::int64_t samples::quantile(double part) const {
  const auto place = static_cast<std::size_t>(part * static_cast<double>(kept_.size()));
  return kept_[std::min(place, kept_.size() - 1)];
}

nlohmann::ordered_json samples::summary(std::int64_t late) {
  nlohmann::ordered_json out;
  out["n"] = count_;
  if (count_ == 0) {
    return out;
  }
  std::sort(kept_.begin(), kept_.end());
  const auto late_ones = kept_.end() - std::upper_bound(kept_.begin(), kept_.end(), late);
  out["mean"] = sum_ / count_;
  out["min"] = kept_.front();
  out["p50"] = quantile(0.50);
  out["p90"] = quantile(0.90);
  out["p95"] = quantile(0.95);
  out["p99"] = quantile(0.99);
  out["max"] = max_;
  out["over_200us"] = static_cast<double>(late_ones) / static_cast<double>(kept_.size());
  return out;
}

}  // namespace lagom::scenarios
