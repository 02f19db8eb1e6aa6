// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace lagom::trace {

// Durations (or any unsigned numbers) counted in buckets whose width grows with the value: exact below 64, from there
// on 32 buckets per power of two, so a reported value is at most 1/64 (1.6 %) from a recorded one. Covers all of
// 64 bits in 15 KiB, allocates nothing.
//
// One thread records; any thread may read at any time and sees each count as of some recent moment. A reader that
// needs count() and percentiles to agree takes a copy first.
class histogram {
 public:
  histogram() noexcept = default;
  histogram(const histogram& other) noexcept { assign(other); }
  histogram& operator=(const histogram& other) noexcept {
    if (this != &other) {
      assign(other);
    }
    return *this;
  }

  // Negative durations (a clock of another thread was ahead) count as 0. The writer's thread only.
  void record(std::int64_t value) noexcept { record_unsigned(value < 0 ? 0 : static_cast<std::uint64_t>(value)); }

  void record_unsigned(std::uint64_t value) noexcept {
    bump(buckets_[index_of(value)], 1);
    bump(count_, 1);
    bump(sum_, value);
    if (value > maximum()) {
      store(maximum_, value);
    }
    if (value < load(minimum_)) {
      store(minimum_, value);
    }
  }

  // Adds another's counts to this one, which must have no other writer now.
  void merge(const histogram& other) noexcept;

  // Takes away the counts of an earlier copy of the same histogram: what was recorded since. The extremes become
  // those of the remaining buckets. Counts never go below 0.
  void subtract(const histogram& earlier) noexcept;

  void reset() noexcept;

  [[nodiscard]] std::uint64_t count() const noexcept { return load(count_); }
  // Wraps at 2^64: 584 years of nanoseconds.
  [[nodiscard]] std::uint64_t sum() const noexcept { return load(sum_); }
  [[nodiscard]] double mean() const noexcept;
  [[nodiscard]] std::uint64_t maximum() const noexcept { return load(maximum_); }
  [[nodiscard]] std::uint64_t minimum() const noexcept { return count() == 0 ? 0 : load(minimum_); }

  // The smallest recorded value such that at least `percent` % of all are not larger: exact where that is the least
  // or the greatest, else the middle of its bucket. 0 if empty. percent is held in 0 … 100. O(buckets).
  [[nodiscard]] std::uint64_t percentile(double percent) const noexcept;

  // For exporters: bucket i counts values in [lower_bound(i), lower_bound(i + 1)).
  static constexpr unsigned sub_bits = 5;
  static constexpr std::size_t exact = std::size_t{2} << sub_bits;
  static constexpr std::size_t bucket_count = exact + (64 - (sub_bits + 1)) * (std::size_t{1} << sub_bits);

  [[nodiscard]] std::uint64_t bucket(std::size_t index) const noexcept { return load(buckets_[index]); }

  [[nodiscard]] static constexpr std::size_t index_of(std::uint64_t value) noexcept {
    if (value < exact) {
      return static_cast<std::size_t>(value);
    }
    // value = 1xxxxx… in binary: the five bits after the leading one choose the bucket within its power of two.
    const auto exponent = static_cast<unsigned>(std::bit_width(value)) - 1;
    const auto sub = static_cast<std::size_t>(value >> (exponent - sub_bits)) - (std::size_t{1} << sub_bits);
    return exact + (exponent - (sub_bits + 1)) * (std::size_t{1} << sub_bits) + sub;
  }

  [[nodiscard]] static constexpr std::uint64_t lower_bound(std::size_t index) noexcept {
    if (index < exact) {
      return index;
    }
    const std::size_t power = (index - exact) >> sub_bits;
    const std::uint64_t sub = (index - exact) & ((std::size_t{1} << sub_bits) - 1);
    return ((std::uint64_t{1} << sub_bits) + sub) << (power + 1);
  }

 private:
  using word = std::atomic<std::uint64_t>;

  // Relaxed throughout: each word is a statistic of its own and publishes nothing. The writer's load and store are
  // two plain moves, a third of a locked add.
  static std::uint64_t load(const word& from) noexcept { return from.load(std::memory_order_relaxed); }
  static void store(word& to, std::uint64_t value) noexcept { to.store(value, std::memory_order_relaxed); }
  static void bump(word& at, std::uint64_t by) noexcept { store(at, load(at) + by); }

  void assign(const histogram& other) noexcept;

  std::array<word, bucket_count> buckets_{};
  word count_{0};
  word sum_{0};
  word maximum_{0};
  word minimum_{~std::uint64_t{0}};
};

}  // namespace lagom::trace
