// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <lagom/detail/export.hpp>

namespace lagom::trace {
class histogram;
}

namespace lagom {
inline namespace v0 {

class histogram;
namespace detail {
histogram snapshot_of(const trace::histogram& h);
}

/// A snapshot of durations in nanoseconds, log-linear, at most 3.2 % wide buckets.
class histogram {
 public:
  std::uint64_t count() const noexcept { return count_; }
  /// Upper bound of the bucket that holds the given percentile (0 … 100); 0 when empty.
  LAGOM_EXPORT std::int64_t percentile(double percent) const noexcept;
  std::int64_t max() const noexcept { return max_; }
  double mean() const noexcept { return count_ ? static_cast<double>(sum_) / static_cast<double>(count_) : 0.0; }
  LAGOM_EXPORT void record(std::int64_t ns);
  LAGOM_EXPORT void merge(const histogram& other);

 private:
  friend histogram detail::snapshot_of(const trace::histogram& h);
  std::vector<std::uint64_t> buckets_;
  std::uint64_t count_ = 0;
  std::int64_t sum_ = 0, max_ = 0;
};

}  // namespace v0
}  // namespace lagom
