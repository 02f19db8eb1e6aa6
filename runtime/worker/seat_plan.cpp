// SPDX-License-Identifier: BSL-1.0
#include "seat_plan.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace lagom {
inline namespace v0 {
namespace detail {

namespace {

static_assert(static_cast<int>(topology::distance::same_core) == scheduler::distance::same_core);
static_assert(static_cast<int>(topology::distance::same_cluster) == scheduler::distance::same_cluster);
static_assert(static_cast<int>(topology::distance::same_llc) == scheduler::distance::same_cache);
static_assert(static_cast<int>(topology::distance::same_package) == scheduler::distance::same_package);
static_assert(static_cast<int>(topology::distance::near_node) == scheduler::distance::near_node);
static_assert(static_cast<int>(topology::distance::far_node) == scheduler::distance::far_node);
static_assert(topology::distance_classes == scheduler::distance::classes);

constexpr std::uint32_t word_bits = 64;

// One last-level cache with workers: its seats, and a CPU that stands for it.
struct cache_group {
  scheduler::seat_range seats;
  std::size_t cpu;
};

}  // namespace

seat_plan::seat_plan(const topology::machine& where, const topology::worker_plan& workers) {
  const auto n = static_cast<std::uint32_t>(workers.cpu_of_worker.size());
  const auto cpu_of = [&](std::uint32_t w) -> const topology::cpu& { return where.cpus[workers.cpu_of_worker[w]]; };
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const topology::cpu &x = cpu_of(a), &y = cpu_of(b);
    return std::tie(x.llc, x.cluster, x.core, x.smt_index) < std::tie(y.llc, y.cluster, y.core, y.smt_index);
  });

  seats_.resize(n);
  std::vector<cache_group> caches;
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint32_t w = order[i];
    if (i == 0 || cpu_of(order[i - 1]).llc != cpu_of(w).llc) {
      worker_at_.resize((worker_at_.size() + word_bits - 1) / word_bits * word_bits, scheduler::no_worker);
      const auto begin = static_cast<std::uint32_t>(worker_at_.size());
      caches.push_back({{begin, begin}, workers.cpu_of_worker[w]});
    }
    seats_[w].seat = static_cast<std::uint32_t>(worker_at_.size());
    seats_[w].capacity = static_cast<std::uint16_t>(cpu_of(w).capacity);
    seats_[w].cache_index = static_cast<std::uint32_t>(caches.size()) - 1;
    worker_at_.push_back(w);
    caches.back().seats.end = static_cast<std::uint32_t>(worker_at_.size());
  }
  worker_at_.resize((worker_at_.size() + word_bits - 1) / word_bits * word_bits, scheduler::no_worker);

  // Those who share something sit side by side: the range goes as far as they do.
  const auto ranges = [&](auto&& same, auto&& range_of) {
    for (std::uint32_t i = 0; i < n;) {
      std::uint32_t end = i + 1;
      while (end < n && cpu_of(order[i]).llc == cpu_of(order[end]).llc && same(cpu_of(order[i]), cpu_of(order[end]))) ++end;
      const scheduler::seat_range r{seats_[order[i]].seat, seats_[order[end - 1]].seat + 1};
      for (; i < end; ++i) range_of(seats_[order[i]]) = r;
    }
  };
  ranges([](const auto& a, const auto& b) { return a.cluster == b.cluster && a.core == b.core; }, [](auto& s) -> auto& { return s.core; });
  ranges([](const auto& a, const auto& b) { return a.cluster == b.cluster; }, [](auto& s) -> auto& { return s.cluster; });
  ranges([](const auto&, const auto&) { return true; }, [](auto& s) -> auto& { return s.cache; });

  for (std::size_t from = 0; from < caches.size(); ++from) {
    const std::size_t first = farther_.size();
    for (std::size_t k = 1; k < caches.size(); ++k) {
      const cache_group& to = caches[(from + k) % caches.size()];
      const topology::distance far = std::max(topology::distance_between(where, caches[from].cpu, to.cpu), topology::distance::same_package);
      farther_.push_back({to.seats, static_cast<std::uint8_t>(far)});
    }
    std::stable_sort(farther_.begin() + static_cast<std::ptrdiff_t>(first), farther_.end(),
                     [](const auto& a, const auto& b) { return a.distance < b.distance; });
  }

  const auto [slowest, fastest] = std::minmax_element(seats_.begin(), seats_.end(),
                                                      [](const auto& a, const auto& b) { return a.capacity < b.capacity; });
  map_ = {.workers = seats_, .worker_at = worker_at_, .farther = farther_, .caches = static_cast<std::uint32_t>(caches.size()),
          .is_hybrid = slowest->capacity * 1078 < fastest->capacity * 1024};
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
