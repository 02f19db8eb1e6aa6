// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "run_queue.hpp"
#include "seating.hpp"
#include "virtual_time.hpp"

// Whom to rob, of how much, and when to even out. Two mechanisms with two purposes:
//
//   theft   keeps workers busy: one with nothing to do takes from the nearest that has more than it can do at once.
//   pull    keeps shares even: three hogs on two workers are never a case for theft, yet one of them would have a worker to
//           itself for ever. So now and then a busy worker compares its load with one other's and takes a single fiber.
namespace lagom::scheduler {

// What theft goes by; the numbers and reasons are in docs/constants.md.
struct theft_limits {
  std::uint32_t most_near = 8, most_far = 1;
  nanos guard_near = 3'000, guard_far = 30'000, guard_remote = 100'000;
};

// How many of the `waiting` ones a thief takes: half, so that both end up with as many, but few from far away, where each
// brings its memory after it.
[[nodiscard]] constexpr std::uint32_t loot_size(std::size_t waiting, std::uint8_t how_far, const theft_limits& limits) {
  const std::size_t half = (waiting + 1) / 2;
  return static_cast<std::uint32_t>(std::min<std::size_t>(half, how_far <= distance::same_cache ? limits.most_near : limits.most_far));
}

// Who became runnable more recently than this stays: what it needs is in that worker's cache, and it is about to run. After
// two rounds without loot it is clear that it is not.
[[nodiscard]] constexpr nanos theft_guard(std::uint8_t how_far, unsigned failed_rounds, const theft_limits& limits) {
  if (failed_rounds >= 2 || how_far == distance::same_core) return 0;
  if (how_far <= distance::same_cache) return limits.guard_near;
  return how_far <= distance::same_package ? limits.guard_far : limits.guard_remote;
}

// Visits the workers whose bit is set in word(i), nearest first; equally near ones from a random one on, so that thieves
// spread. visit(worker, distance) returns true to end. O(words) and one visit per bit.
template <class Word, class Visit>
bool visit_victims(const seating& map, std::uint32_t thief, std::uint64_t random, Word&& word, Visit&& visit) {
  const worker_seat& own = map.workers[thief];
  const auto walk = [&](seat_range in, seat_range but, std::uint8_t how_far) {
    const std::uint32_t width = in.end - in.begin;
    if (width == 0) return false;
    const std::uint32_t start = in.begin + static_cast<std::uint32_t>(random % width);
    for (const seat_range part : {seat_range{start, in.end}, seat_range{in.begin, start}}) {
      for (std::uint32_t at = part.begin; at < part.end; ++at) {
        at = find_seat({at, part.end}, word);
        if (at == no_seat) break;
        if (but.contains(at)) continue;
        if (visit(map.worker_at[at], how_far)) return true;
      }
    }
    return false;
  };
  if (walk(own.core, {own.seat, own.seat + 1}, distance::same_core)) return true;
  if (walk(own.cluster, own.core, distance::same_cluster)) return true;
  if (walk(own.cache, own.cluster, distance::same_cache)) return true;
  for (const farther_cache& other : map.beyond(own.cache_index)) {
    if (walk(other.seats, {}, other.distance)) return true;
  }
  return false;
}

// Is looking for loot far away worth it? It is tried as often as it has succeeded lately, but never less than one time in 64:
// what Linux does since 6.18 with newly idle CPUs (NI_RANDOM), whose useless looks had come to cost more than they brought.
class theft_gate {
 public:
  [[nodiscard]] constexpr bool opens(std::uint64_t random) const { return random % scale <= std::max(ratio_, scale / 64); }
  constexpr void record(bool success) { ratio_ = static_cast<std::uint32_t>(ratio_ + (success ? scale / 8 : 0) - ratio_ / 8); }
  [[nodiscard]] constexpr std::uint32_t ratio() const { return ratio_; }  // of 1024

 private:
  static constexpr std::uint32_t scale = 1024;
  std::uint32_t ratio_ = scale / 2;
};

// What a worker has to do: the weights of all who want to run there, in proportion to the speed of its CPU.
[[nodiscard]] constexpr std::uint64_t load_of(std::int64_t weight, unsigned capacity) {
  return static_cast<std::uint64_t>(weight) * 1024 / capacity;
}

// Is `there` so much more loaded that taking somebody from there is worth it?
[[nodiscard]] constexpr bool is_worth_a_pull(std::uint64_t here, std::uint64_t there) { return there * 100 > here * 117; }

// Whom to pull: of those waiting in `from`, not heavier than the difference in load, the one that has been served most
// lately (used_of). It comes to the fuller queue; who has been served least stays and has the emptier one. Two workers may
// so exchange their loads, never make them worse, and all get the same in the long run. (Tried on three hogs and two
// workers over 2 s: 66 to 67 % each; with the least served 50/75/75.)
// nullptr: nobody suits, or the most served one is running just now: better none than another. Looks at `at_most`.
template <class MayTake, class UsedOf>
[[nodiscard]] entity* pull_candidate(const run_queue& from, std::uint64_t difference, unsigned capacity, MayTake&& may_take, UsedOf&& used_of,
                                     std::size_t at_most = 32) {
  entity* best = nullptr;
  entity* running = from.current();
  unsigned most = running != nullptr && running->on_rq ? used_of(*running) : 0;
  static_cast<void>(from.steal_candidate(
      [&](entity& e) {
        if (load_of(e.share.scaled, capacity) > difference || !may_take(e)) return false;
        const unsigned used = used_of(e);
        if (used < most || (best != nullptr && used == most)) return false;
        best = &e;
        most = used;
        return false;
      },
      at_most));
  return best;
}

}  // namespace lagom::scheduler
