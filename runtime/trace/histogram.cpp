// SPDX-License-Identifier: BSL-1.0
#include "histogram.hpp"

#include <algorithm>
#include <cmath>

namespace lagom::trace {

void histogram::assign(const histogram& other) noexcept {
  for (std::size_t i = 0; i < bucket_count; ++i) {
    store(buckets_[i], load(other.buckets_[i]));
  }
  store(count_, load(other.count_));
  store(sum_, load(other.sum_));
  store(maximum_, load(other.maximum_));
  store(minimum_, load(other.minimum_));
}

void histogram::merge(const histogram& other) noexcept {
  for (std::size_t i = 0; i < bucket_count; ++i) {
    bump(buckets_[i], load(other.buckets_[i]));
  }
  bump(count_, load(other.count_));
  bump(sum_, load(other.sum_));
  store(maximum_, std::max(load(maximum_), load(other.maximum_)));
  store(minimum_, std::min(load(minimum_), load(other.minimum_)));
}

void histogram::subtract(const histogram& earlier) noexcept {
  std::uint64_t total = 0;
  std::size_t first = bucket_count;
  std::size_t last = 0;
  for (std::size_t i = 0; i < bucket_count; ++i) {
    const std::uint64_t now = load(buckets_[i]);
    const std::uint64_t rest = now - std::min(now, load(earlier.buckets_[i]));
    store(buckets_[i], rest);
    total += rest;
    if (rest != 0) {
      first = std::min(first, i);
      last = i;
    }
  }
  store(count_, total);
  store(sum_, load(sum_) - load(earlier.sum_));
  if (total == 0) {
    store(maximum_, 0);
    store(minimum_, ~std::uint64_t{0});
    return;
  }
  // Known only to the bucket, but never beyond the extremes that were known exactly.
  const std::uint64_t end = last + 1 < bucket_count ? lower_bound(last + 1) - 1 : ~std::uint64_t{0};
  store(maximum_, std::min(load(maximum_), end));
  store(minimum_, std::max(load(minimum_), lower_bound(first)));
}

void histogram::reset() noexcept {
  // Not by assigning an empty one: that would put 15 KiB on a stack that may be a fiber's.
  for (word& each : buckets_) {
    store(each, 0);
  }
  store(count_, 0);
  store(sum_, 0);
  store(maximum_, 0);
  store(minimum_, ~std::uint64_t{0});
}

double histogram::mean() const noexcept {
  const std::uint64_t n = count();
  return n == 0 ? 0.0 : static_cast<double>(sum()) / static_cast<double>(n);
}

std::uint64_t histogram::percentile(double percent) const noexcept {
  // Not count_: the buckets may be a few records ahead of or behind it while the writer runs.
  std::uint64_t total = 0;
  for (const word& each : buckets_) {
    total += load(each);
  }
  if (total == 0) {
    return 0;
  }
  const double share = std::clamp(percent, 0.0, 100.0) / 100.0;
  const auto wanted = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(total)));
  const std::uint64_t rank = std::clamp<std::uint64_t>(wanted, 1, total);
  const std::uint64_t highest = maximum();
  const std::uint64_t lowest = std::min(load(minimum_), highest);
  if (rank == total) {
    return highest;
  }
  if (rank == 1) {
    return lowest;
  }

  std::uint64_t seen = 0;
  std::size_t index = 0;
  for (; index + 1 < bucket_count; ++index) {
    seen += load(buckets_[index]);
    if (seen >= rank) {
      break;
    }
  }
  const std::uint64_t low = lower_bound(index);
  const std::uint64_t width = index + 1 < bucket_count ? lower_bound(index + 1) - low : ~std::uint64_t{0} - low;
  return std::clamp(low + (width - 1) / 2, lowest, highest);
}

}  // namespace lagom::trace
