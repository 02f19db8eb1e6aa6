// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lagom::scheduler {

// Where the workers sit. Each has a seat, which is also its bit in the words that workers publish (who sleeps, who has more
// than it can do). Neighbours have neighbouring seats: those who share a core, a cluster, a last-level cache are ranges of
// seats, and each last-level cache begins a word of its own, so that a look at one's own surroundings reads one word that
// nobody farther away writes. Seats may be empty.
struct seat_range {
  std::uint32_t begin = 0, end = 0;

  [[nodiscard]] constexpr bool contains(std::uint32_t seat) const { return seat >= begin && seat < end; }
  friend constexpr bool operator==(seat_range, seat_range) = default;
};

inline constexpr std::uint32_t no_worker = ~std::uint32_t{0};

// Distance classes, as topology::distance counts them.
namespace distance {
inline constexpr std::uint8_t same_core = 0, same_cluster = 1, same_cache = 2, same_package = 3, near_node = 4, far_node = 5;
inline constexpr std::size_t classes = 6;
}  // namespace distance

struct worker_seat {
  std::uint32_t seat = 0;
  seat_range core{}, cluster{}, cache{};  // with itself
  std::uint32_t cache_index = 0;
  std::uint16_t capacity = 1024;          // of its CPU, 1 … 1024
};

// Another last-level cache, as seen from one.
struct farther_cache {
  seat_range seats{};
  std::uint8_t distance = distance::same_package;
};

// Storage is the caller's and lasts.
struct seating {
  std::span<const worker_seat> workers;         // by worker
  std::span<const std::uint32_t> worker_at;     // by seat; no_worker: empty
  std::span<const farther_cache> farther;       // per cache the others, nearest first: caches × (caches - 1)
  std::uint32_t caches = 1;
  bool is_hybrid = false;                       // capacities differ

  [[nodiscard]] std::span<const farther_cache> beyond(std::uint32_t cache) const {
    return farther.subspan(static_cast<std::size_t>(cache) * (caches - 1), caches - 1);
  }
  [[nodiscard]] std::size_t words() const { return worker_at.size() / 64; }
  // O(caches) across caches, else O(1).
  [[nodiscard]] std::uint8_t distance_between(std::uint32_t a, std::uint32_t b) const {
    const worker_seat& from = workers[a];
    const std::uint32_t to = workers[b].seat;
    if (from.core.contains(to)) return distance::same_core;
    if (from.cluster.contains(to)) return distance::same_cluster;
    if (from.cache.contains(to)) return distance::same_cache;
    for (const farther_cache& other : beyond(from.cache_index)) {
      if (other.seats.contains(to)) return other.distance;
    }
    return distance::far_node;
  }
};

// Words of one bit per seat. Copies or the real thing; who passes them says which.
using seat_words = std::span<const std::uint64_t>;

[[nodiscard]] inline bool test(seat_words words, std::uint32_t seat) { return words[seat / 64] >> (seat % 64) & 1; }

inline constexpr std::uint32_t no_seat = ~std::uint32_t{0};

// The first seat of [begin, end) for which word(i) has its bit, or no_seat. word(i) gives the i-th word. O(words).
template <class Word>
[[nodiscard]] std::uint32_t find_seat(seat_range in, Word&& word) {
  for (std::uint32_t at = in.begin; at < in.end;) {
    const std::uint64_t found = word(at / 64) >> (at % 64);
    if (found != 0) {
      const std::uint32_t seat = at + static_cast<std::uint32_t>(std::countr_zero(found));
      return seat < in.end ? seat : no_seat;
    }
    at = (at / 64 + 1) * 64;
  }
  return no_seat;
}

// The same, but begins at `from`, inside the range, and wraps.
template <class Word>
[[nodiscard]] std::uint32_t find_seat_from(std::uint32_t from, seat_range in, Word&& word) {
  assert(in.contains(from));
  const std::uint32_t after = find_seat({from, in.end}, word);
  return after != no_seat ? after : find_seat({in.begin, from}, word);
}

}  // namespace lagom::scheduler
