// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace lagom::sim {

// Durations, exact below 32 ns and within 3 % above: 32 buckets for each doubling. Grows with what it holds.
class wait_histogram {
 public:
  void add(std::int64_t value) {
    const std::size_t at = bucket_of(value);
    if (at >= buckets_.size()) {
      buckets_.resize(at + 1);
    }
    ++buckets_[at];
    ++count_;
    sum_ += value;
    max_ = std::max(max_, value);
  }
  void add(const wait_histogram& other) {
    buckets_.resize(std::max(buckets_.size(), other.buckets_.size()));
    for (std::size_t i = 0; i < other.buckets_.size(); ++i) {
      buckets_[i] += other.buckets_[i];
    }
    count_ += other.count_;
    sum_ += other.sum_;
    max_ = std::max(max_, other.max_);
  }

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] std::int64_t max() const { return max_; }
  [[nodiscard]] std::int64_t sum() const { return sum_; }
  [[nodiscard]] double mean() const { return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_); }
  // The upper end of the bucket that holds the value of this rank; 0 if there is none.
  [[nodiscard]] std::int64_t quantile(double q) const {
    std::int64_t left = static_cast<std::int64_t>(q * static_cast<double>(count_));
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      left -= buckets_[i];
      if (left < 0) {
        return std::min(upper_end(i), max_);
      }
    }
    return max_;
  }
  // visit(upper end, how many so far) for each bucket that is not empty.
  template <class Visit>
  void for_each(Visit&& visit) const {
    std::int64_t so_far = 0;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      if (buckets_[i] != 0) {
        so_far += buckets_[i];
        visit(std::min(upper_end(i), max_), so_far);
      }
    }
  }

 private:
  static constexpr unsigned bits = 5;

  static std::size_t bucket_of(std::int64_t value) {
    const auto v = static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0));
    if (v < (1U << bits)) {
      return v;
    }
    const unsigned shift = static_cast<unsigned>(std::bit_width(v)) - bits - 1;
    return (static_cast<std::size_t>(shift + 1) << bits) + ((v >> shift) & ((1U << bits) - 1));
  }
  static std::int64_t upper_end(std::size_t bucket) {
    if (bucket < (1U << bits)) {
      return static_cast<std::int64_t>(bucket);
    }
    const unsigned shift = static_cast<unsigned>(bucket >> bits) - 1;
    const std::uint64_t low = (bucket & ((1U << bits) - 1)) | (1U << bits);
    return static_cast<std::int64_t>(((low + 1) << shift) - 1);
  }

  std::vector<std::int64_t> buckets_{};
  std::int64_t count_ = 0;
  std::int64_t sum_ = 0;
  std::int64_t max_ = 0;
};

}  // namespace lagom::sim
