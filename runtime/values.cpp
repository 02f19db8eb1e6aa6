// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

#include <lagom/cpu_set.hpp>
#include <lagom/features.hpp>
#include <lagom/histogram.hpp>

#include "scheduler/features.hpp"
#include "topology/cpu_set.hpp"
#include "trace/histogram.hpp"

// The public value types that wrap what the modules have.
namespace lagom {
inline namespace v0 {

cpu_set cpu_set::parse(std::string_view text) {
  const topology::cpu_set parsed = topology::cpu_set::parse(text);
  cpu_set set;
  for (std::size_t cpu : parsed) set.set(static_cast<unsigned>(cpu));
  return set;
}

void cpu_set::set(unsigned cpu) {
  if (cpu > 65535) throw std::invalid_argument("lagom: CPU " + std::to_string(cpu) + " is above 65535");
  if (words_.size() <= cpu / 64) words_.resize(cpu / 64 + 1);
  words_[cpu / 64] |= std::uint64_t{1} << (cpu % 64);
}

void cpu_set::reset(unsigned cpu) noexcept {
  if (words_.size() <= cpu / 64) return;
  words_[cpu / 64] &= ~(std::uint64_t{1} << (cpu % 64));
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
}

bool cpu_set::test(unsigned cpu) const noexcept {
  return words_.size() > cpu / 64 && (words_[cpu / 64] >> (cpu % 64) & 1);
}

std::size_t cpu_set::count() const noexcept {
  std::size_t n = 0;
  for (std::uint64_t w : words_) n += static_cast<std::size_t>(std::popcount(w));
  return n;
}

unsigned cpu_set::next(unsigned from) const noexcept {
  for (std::size_t w = from / 64; w < words_.size(); ++w) {
    std::uint64_t bits = words_[w];
    if (w == from / 64) bits &= ~std::uint64_t{0} << (from % 64);
    if (bits) return static_cast<unsigned>(w * 64) + static_cast<unsigned>(std::countr_zero(bits));
  }
  return none;
}

std::string cpu_set::to_string() const {
  std::string text;
  for (unsigned first = next(0); first != none;) {
    unsigned last = first;
    while (test(last + 1)) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(first);
    if (last != first) text += '-' + std::to_string(last);
    first = next(last + 1);
  }
  return text;
}

features features::parse(std::string_view list) {
  const scheduler::features_parse_result r = scheduler::features::parse(list);
  if (!r) {
    std::string text = "lagom: features: ";
    switch (r.error) {
      case scheduler::features_error::unknown_name: text += "there is no '" + std::string(r.offending) + "'"; break;
      case scheduler::features_error::bad_value: text += "bad value in '" + std::string(r.offending) + "'"; break;
      default: text += "'" + std::string(r.offending) + "' contradicts the others";
    }
    throw std::invalid_argument(text + "; known: " + std::string(scheduler::features::names()));
  }
  features f;
  f.text_ = std::string(list);
  return f;
}

void histogram::record(std::int64_t ns) {
  if (buckets_.empty()) buckets_.resize(trace::histogram::bucket_count);
  ns = std::max<std::int64_t>(ns, 0);
  ++buckets_[trace::histogram::index_of(static_cast<std::uint64_t>(ns))];
  ++count_;
  sum_ += ns;
  max_ = std::max(max_, ns);
}

void histogram::merge(const histogram& other) {
  if (other.buckets_.empty()) return;
  if (buckets_.empty()) buckets_.resize(trace::histogram::bucket_count);
  for (std::size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
}

std::int64_t histogram::percentile(double percent) const noexcept {
  if (count_ == 0) return 0;
  const double wanted = std::clamp(percent, 0.0, 100.0) / 100.0 * static_cast<double>(count_);
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen > 0 && static_cast<double>(seen) >= wanted) {
      const std::uint64_t upper = i + 1 < trace::histogram::bucket_count ? trace::histogram::lower_bound(i + 1) - 1 : ~std::uint64_t{0} >> 1;
      return std::min(static_cast<std::int64_t>(upper), max_);
    }
  }
  return max_;
}

namespace detail {

histogram snapshot_of(const trace::histogram& h) {
  histogram copy;
  if (h.count() == 0) return copy;
  copy.buckets_.resize(trace::histogram::bucket_count);
  for (std::size_t i = 0; i < trace::histogram::bucket_count; ++i) {
    copy.buckets_[i] = h.bucket(i);
    copy.count_ += copy.buckets_[i];
  }
  copy.sum_ = static_cast<std::int64_t>(h.sum());
  copy.max_ = static_cast<std::int64_t>(h.maximum());
  return copy;
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
