// SPDX-License-Identifier: BSL-1.0
#include "worker_selection.hpp"

#include <array>

#include "capacity_fit.hpp"

namespace lagom::scheduler {

namespace {

// One question: everything that is asked of, in one place.
class search {
 public:
  search(const seating& map, const wakee& who, const situation& now)
      : map_(map), who_(who), now_(now),
        anchor_(who.previous != no_worker ? who.previous : now.here != no_worker ? now.here : 0) {}

  [[nodiscard]] selection answer() const {
    if (may_run(now_.here) && stays_here(now_, who_.usual_stint) && is_fast_enough(now_.here)) return {now_.here, false};
    for (const std::uint32_t w : {who_.previous, who_.recent}) {
      if (may_run(w) && has(now_.idle, w) && is_fast_enough(w)) return {w, true};
    }
    if (!who_.is_idle_class) {
      for (const std::uint32_t w : {who_.previous, now_.here, who_.recent}) {
        if (may_run(w) && has(now_.idle_only, w) && is_fast_enough(w)) return {w, false};
      }
    }
    const std::uint32_t idle = map_.is_hybrid ? fastest_idle() : nearest_idle();
    if (idle != no_worker) return {idle, true};
    return {who_.is_idle_class ? busy_for_idle_class() : busy(), false};
  }

 private:
  [[nodiscard]] bool may_run(std::uint32_t w) const {
    return w != no_worker && (who_.allowed.empty() || test(who_.allowed, map_.workers[w].seat));
  }
  [[nodiscard]] bool has(seat_words words, std::uint32_t w) const { return test(words, map_.workers[w].seat); }
  [[nodiscard]] bool is_fast_enough(std::uint32_t w) const {
    return !map_.is_hybrid || fits(who_.utilization, who_.clamp, map_.workers[w].capacity) == fit::whole;
  }
  [[nodiscard]] std::uint64_t allowed(std::uint32_t word) const { return who_.allowed.empty() ? ~std::uint64_t{0} : who_.allowed[word]; }

  // A seat nobody farther has claimed or is kept from; in the range, from the anchor's own seat on, so that not all ask the
  // same one first.
  [[nodiscard]] std::uint32_t idle_in(seat_range in) const {
    const auto word = [&](std::uint32_t i) { return now_.idle[i] & allowed(i); };
    const std::uint32_t own = map_.workers[anchor_].seat;
    const std::uint32_t seat = in.contains(own) ? find_seat_from(own, in, word) : find_seat(in, word);
    return seat == no_seat ? no_worker : map_.worker_at[seat];
  }

  // A core all of whose workers sleep: two fibers on two cores run up to twice as fast as on two threads of one.
  [[nodiscard]] std::uint32_t idle_core_in(seat_range in) const {
    for (std::uint32_t at = in.begin; at < in.end;) {
      const std::uint32_t seat = find_seat({at, in.end}, [&](std::uint32_t i) { return now_.idle[i] & allowed(i); });
      if (seat == no_seat) return no_worker;
      const std::uint32_t w = map_.worker_at[seat];
      const seat_range core = map_.workers[w].core;
      bool is_whole = true;
      for (std::uint32_t s = core.begin; s < core.end; ++s) is_whole &= map_.worker_at[s] == no_worker || test(now_.idle, s);
      if (is_whole) return w;
      at = core.end;
    }
    return no_worker;
  }

  [[nodiscard]] std::uint32_t nearest_idle() const {
    const worker_seat& at = map_.workers[anchor_];
    for (const seat_range in : {at.cluster, at.cache}) {
      if (now_.packs) break;
      if (const std::uint32_t w = idle_core_in(in); w != no_worker) return w;
    }
    for (const seat_range in : {at.core, at.cluster, at.cache}) {
      if (const std::uint32_t w = idle_in(in); w != no_worker) return w;
    }
    for (const farther_cache& other : map_.beyond(at.cache_index)) {
      // What it has in memory is too far from there; who finds nothing to do may still come for it.
      if (other.distance >= distance::far_node && who_.previous != no_worker) break;
      if (const std::uint32_t w = idle_core_in(other.seats); w != no_worker) return w;
      if (const std::uint32_t w = idle_in(other.seats); w != no_worker) return w;
    }
    return no_worker;
  }

  // Of those that sleep the best fit, of these the fastest, of these the nearest.
  [[nodiscard]] std::uint32_t fastest_idle() const {
    std::uint32_t best = no_worker;
    fit best_fit = fit::too_small;
    const auto look = [&](seat_range in) {
      for (std::uint32_t at = in.begin; at < in.end; ++at) {
        at = find_seat({at, in.end}, [&](std::uint32_t i) { return now_.idle[i] & allowed(i); });
        if (at == no_seat) return;
        const std::uint32_t w = map_.worker_at[at];
        const fit f = fits(who_.utilization, who_.clamp, map_.workers[w].capacity);
        const bool is_better = best == no_worker || f > best_fit ||
                               (f == best_fit && is_bigger(map_.workers[w].capacity, map_.workers[best].capacity));
        if (!is_better) continue;
        best = w;
        best_fit = f;
      }
    };
    const worker_seat& at = map_.workers[anchor_];
    for (const seat_range in : {at.core, at.cluster, at.cache}) look(in);
    for (const farther_cache& other : map_.beyond(at.cache_index)) look(other.seats);
    // Who would only move to a CPU as slow as where it is woken has nothing from moving, unless it has to wait there.
    const bool stays = may_run(now_.here) && stays_here(now_, who_.usual_stint);
    if (best != no_worker && stays && !is_bigger(map_.workers[best].capacity, map_.workers[now_.here].capacity)) return no_worker;
    return best;
  }

  [[nodiscard]] std::uint32_t busy_for_idle_class() const {
    for (const std::uint32_t w : {who_.previous, now_.here, who_.recent}) {
      if (may_run(w) && has(now_.idle_only, w)) return w;
    }
    return may_run(who_.previous) ? who_.previous : may_run(now_.here) ? now_.here : no_worker;
  }

  // Nobody sleeps. A worker with nothing but the idle class gives way to the wakee; else where it waits least, moving
  // counted as dearly as a wake-up.
  [[nodiscard]] std::uint32_t busy() const {
    const worker_seat& at = map_.workers[anchor_];
    const std::uint32_t seat = find_seat_from(at.seat, at.cache, [&](std::uint32_t i) { return now_.idle_only[i] & allowed(i); });
    if (seat != no_seat && is_fast_enough(map_.worker_at[seat])) return map_.worker_at[seat];
    if (!may_run(now_.here)) return may_run(who_.previous) ? who_.previous : no_worker;
    if (!may_run(who_.previous)) return now_.here;
    return now_.wait_here <= now_.wait_previous || now_.wait_here - now_.wait_previous <= now_.wake_cost ? now_.here : who_.previous;
  }

  const seating& map_;
  const wakee& who_;
  const situation& now_;
  const std::uint32_t anchor_;
};

}  // namespace

selection select_worker(const seating& map, const wakee& who, const situation& now) { return search(map, who, now).answer(); }

}  // namespace lagom::scheduler
