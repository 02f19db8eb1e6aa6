// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "trace/histogram.hpp"

using lagom::trace::histogram;

namespace {

constexpr std::uint64_t max64 = std::numeric_limits<std::uint64_t>::max();

// What percentile() promises, from the sorted values themselves.
std::uint64_t exact_percentile(const std::vector<std::uint64_t>& sorted, double percent) {
  const auto wanted = static_cast<std::size_t>(std::ceil(percent / 100.0 * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(wanted, 1, sorted.size()) - 1];
}

std::unique_ptr<histogram> make() { return std::make_unique<histogram>(); }

}  // namespace

TEST_CASE("every value lies in its bucket, and the buckets join without gaps") {
  for (std::size_t i = 0; i + 1 < histogram::bucket_count; ++i) {
    CHECK(histogram::lower_bound(i) < histogram::lower_bound(i + 1));
    CHECK(histogram::index_of(histogram::lower_bound(i)) == i);
    CHECK(histogram::index_of(histogram::lower_bound(i + 1) - 1) == i);
  }
  CHECK(histogram::index_of(0) == 0);
  CHECK(histogram::index_of(max64) == histogram::bucket_count - 1);
}

TEST_CASE("empty") {
  const auto empty = make();
  CHECK(empty->count() == 0);
  CHECK(empty->percentile(50) == 0);
  CHECK(empty->minimum() == 0);
  CHECK(empty->maximum() == 0);
  CHECK(empty->mean() == 0.0);
}

TEST_CASE("one value is every percentile") {
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{63}, std::uint64_t{64},
                                    std::uint64_t{999'999'937}, max64}) {
    const auto one = make();
    one->record_unsigned(value);
    for (const double percent : {-1.0, 0.0, 50.0, 99.9, 100.0, 250.0}) {
      CHECK(one->percentile(percent) == value);
    }
    CHECK(one->minimum() == value);
    CHECK(one->maximum() == value);
  }
}

TEST_CASE("negative durations count as zero") {
  const auto values = make();
  values->record(-5);
  values->record(std::numeric_limits<std::int64_t>::min());
  CHECK(values->count() == 2);
  CHECK(values->maximum() == 0);
}

TEST_CASE("percentiles of random values are within 3 % of the sorted truth") {
  constexpr unsigned seed = 20240917;
  std::mt19937_64 random(seed);
  for (const int spread : {6, 20, 40, 63}) {
    CAPTURE(spread);
    const auto values = make();
    std::vector<std::uint64_t> truth;
    std::uint64_t sum = 0;
    for (int i = 0; i < 20'000; ++i) {
      // Evenly over the magnitudes up to 2^spread.
      const std::uint64_t value = random() >> (63 - static_cast<int>(random() % static_cast<unsigned>(spread + 1)));
      values->record_unsigned(value);
      truth.push_back(value);
      sum += value;
    }
    std::sort(truth.begin(), truth.end());
    CHECK(values->count() == truth.size());
    CHECK(values->sum() == sum);
    CHECK(values->minimum() == truth.front());
    CHECK(values->maximum() == truth.back());
    for (const double percent : {0.0, 0.1, 1.0, 25.0, 50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 100.0}) {
      CAPTURE(percent);
      const auto expected = static_cast<double>(exact_percentile(truth, percent));
      const auto found = static_cast<double>(values->percentile(percent));
      CHECK(std::abs(found - expected) <= expected * 0.03);
    }
  }
}

TEST_CASE("small values are exact") {
  const auto values = make();
  for (std::uint64_t i = 0; i < 64; ++i) {
    values->record_unsigned(i);
  }
  CHECK(values->percentile(50) == 31);
  CHECK(values->percentile(75) == 47);
  CHECK(values->mean() == 31.5);
}

TEST_CASE("merge is the same as recording together, subtract takes it back") {
  constexpr unsigned seed = 7;
  std::mt19937_64 random(seed);
  const auto first = make();
  const auto second = make();
  const auto both = make();
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t value = random() >> (random() % 60);
    (i % 3 == 0 ? first : second)->record_unsigned(value);
    both->record_unsigned(value);
  }
  const auto merged = std::make_unique<histogram>(*first);
  merged->merge(*second);
  CHECK(merged->count() == both->count());
  CHECK(merged->sum() == both->sum());
  for (const double percent : {0.0, 10.0, 50.0, 99.0, 100.0}) {
    CHECK(merged->percentile(percent) == both->percentile(percent));
  }
  merged->subtract(*first);
  CHECK(merged->count() == second->count());
  CHECK(merged->sum() == second->sum());
  for (std::size_t i = 0; i < histogram::bucket_count; ++i) {
    CHECK(merged->bucket(i) == second->bucket(i));
  }
  CHECK(merged->maximum() >= second->maximum());
  CHECK(merged->minimum() <= second->minimum());
  merged->subtract(*second);
  CHECK(merged->count() == 0);
  CHECK(merged->percentile(50) == 0);
}

TEST_CASE("reset forgets everything") {
  const auto values = make();
  values->record(1000);
  values->reset();
  CHECK(values->count() == 0);
  CHECK(values->maximum() == 0);
  values->record(5);
  CHECK(values->percentile(50) == 5);
}

TEST_CASE("a reader on another thread sees counts that only grow") {
  const auto values = make();
  constexpr std::uint64_t records = 200'000;
  std::thread writer([&values] {
    for (std::uint64_t i = 0; i < records; ++i) {
      values->record_unsigned(i % 1000);
    }
  });
  std::uint64_t last = 0;
  while (last < records) {
    const std::uint64_t seen = values->count();
    CHECK(seen >= last);
    CHECK(values->percentile(99) <= 1000);
    last = seen;
  }
  writer.join();
  CHECK(values->count() == records);
}
