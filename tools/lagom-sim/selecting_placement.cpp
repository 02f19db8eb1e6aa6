// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <span>
#include <vector>

#include "placement.hpp"
#include "runtime/worker/constants.hpp"
#include "scheduler/worker_selection.hpp"

// The runtime's rule: the same questions to scheduler/, with the same figures, as runtime/worker/{placing,steal}.cpp.
namespace lagom::sim {

namespace {

using detail::even_out_far_one_in;
using detail::even_out_interval_ns;
using detail::probe_max;
constexpr scheduler::theft_limits limits;

class selecting_placement : public placement {
 public:
  explicit selecting_placement(std::uint64_t seed) : random_(seed ^ 0x5bd1e995U) {}

  destination woken(crew& all, fiber& f, worker* here) override {
    const bool stays = f.is_pinned || f.on_rq;
    if (stays && f.home != nobody) {
      return {f.home};
    }
    if (here == nullptr) {
      return select(all, f, nullptr, scheduler::forever);
    }
    return keeps(all, f, *here, f.usual_stint) ? destination{here->index} : place(all, f, *here);
  }

  // A child is taken for short until it has shown otherwise, unless all are long here.
  destination spawned(crew& all, fiber& f, worker* here) override {
    if (here == nullptr) {
      return f.spec->home ? destination{*f.spec->home} : select(all, f, nullptr, scheduler::forever);
    }
    return keeps(all, f, *here, here->stint) ? destination{here->index} : place(all, f, *here);
  }

  unsigned helper(crew& all, worker& busy) override {
    if (all.idle.count() == 0 || all.searchers != 0) {
      return nobody;
    }
    const scheduler::worker_seat& at = all.map().workers[busy.index];
    const auto word = [&](std::uint32_t i) { return all.idle.words()[i]; };
    const auto claim_in = [&](scheduler::seat_range in, std::uint32_t from) {
      busy.spent += all.price.probe;
      const std::uint32_t seat = in.contains(from) ? scheduler::find_seat_from(from, in, word) : scheduler::find_seat(in, word);
      const unsigned found = seat == scheduler::no_seat ? nobody : all.map().worker_at[seat];
      return found != nobody && all.claim(found) ? found : nobody;
    };
    for (const scheduler::seat_range in : {at.core, at.cluster, at.cache}) {
      if (const unsigned found = claim_in(in, at.seat); found != nobody) {
        return found;
      }
    }
    for (const scheduler::farther_cache& other : all.map().beyond(at.cache_index)) {
      if (const unsigned found = claim_in(other.seats, other.seats.begin); found != nobody) {
        return found;
      }
    }
    return nobody;
  }

  victim next_victim(crew& all, worker& thief, unsigned tries, loot_kind what) override {
    if (tries == 0) {
      list_victims(all, thief, what);
      next_ = 0;
    }
    if (next_ == list_.size()) {
      return {};
    }
    thief.spent += all.price.probe;
    ++thief.probes;
    const candidate& c = list_[next_++];
    was_far_ |= c.distance > scheduler::distance::same_cache;
    return {c.worker, c.distance <= scheduler::distance::same_cache ? limits.most_near : limits.most_far,
            scheduler::theft_guard(c.distance, thief.failed_thefts, limits), c.takes_idle_class};
  }

  void searched(crew&, worker& thief, bool found) override {
    if (was_far_) {
      thief.far_thefts.record(found);
    }
    thief.failed_thefts = found ? 0 : thief.failed_thefts + 1;
  }

  bool stays_awake(crew& all, worker& w) override {
    w.spent += words_of(all) * all.price.probe;
    return !w.saw_unmovable && all.overloaded.count() > (w.is_overloaded ? 1U : 0U);
  }

  [[nodiscard]] bool keeps_mark() const override { return true; }
  [[nodiscard]] bool prefers_normal() const override { return true; }
  [[nodiscard]] nanos pull_interval() const override { return even_out_interval_ns; }

  unsigned pull_partner(crew& all, worker& w, generator& random) override {
    const auto n = static_cast<unsigned>(all.workers.size());
    const scheduler::seat_range near = all.map().workers[w.index].cache;
    const auto pick = [&](unsigned below) { return static_cast<unsigned>(random.next() % below); };
    unsigned other = nobody;
    const std::uint32_t seat = all.map().workers[w.index].seat, neighbours = near.end - near.begin - 1;
    if (neighbours != 0 && pick(even_out_far_one_in) != 0) {
      const std::uint32_t at = near.begin + pick(neighbours);
      other = all.map().worker_at[at < seat ? at : at + 1];
    } else if (n > 1) {
      other = pick(n - 1);
      other += other < w.index ? 0U : 1U;
    }
    return other >= n ? nobody : other;
  }

 private:
  struct candidate {
    unsigned worker;
    std::uint8_t distance;
    bool takes_idle_class;
  };

  static nanos words_of(const crew& all) { return static_cast<nanos>(all.map().words()); }

  static nanos expected_wait(const worker& w, bool is_idle_class) {
    return is_idle_class && !w.is_idle_only ? scheduler::forever : static_cast<nanos>(w.waiting + (w.running != nullptr ? 1U : 0U)) * w.stint;
  }

  static bool keeps(const crew& all, const fiber& f, const worker& here, nanos usual_stint) {
    if (f.is_pinned || f.on_rq || all.workers.size() == 1) {
      return true;
    }
    if (all.map().is_hybrid || !f.may_run_on(here.index)) {
      return false;
    }
    scheduler::situation now;
    now.wait_here = expected_wait(here, f.kind == scheduler::policy::idle);
    now.wake_cost = all.price.wake;
    return scheduler::stays_here(now, usual_stint);
  }

  destination place(crew& all, fiber& f, worker& here) {
    return select(all, f, &here, f.usual_stint != 0 ? f.usual_stint : here.stint);
  }

  destination select(crew& all, fiber& f, worker* here, nanos usual_stint) {
    if (here != nullptr) {
      here->spent += 2 * words_of(all) * all.price.probe;
    }
    const bool is_idle_class = f.kind == scheduler::policy::idle;
    const worker* home = f.home == nobody ? nullptr : all.workers[f.home].get();
    const std::vector<std::uint64_t> allowed = allowed_words(all, f);
    scheduler::wakee who;
    who.previous = home != nullptr ? home->index : scheduler::no_worker;
    who.recent = f.recent;
    who.is_idle_class = is_idle_class;
    who.usual_stint = usual_stint;
    who.utilization = std::max(f.usage.value(), f.usual_usage);
    who.clamp = f.clamp;
    who.allowed = allowed;
    scheduler::situation now;
    if (here != nullptr) {
      now.here = here->index;
      now.wait_here = expected_wait(*here, is_idle_class);
    }
    now.wait_previous = home != nullptr ? expected_wait(*home, is_idle_class) : scheduler::forever;
    now.wake_cost = all.price.wake;
    now.idle = all.idle.words();
    now.idle_only = all.idle_only.words();
    const scheduler::selection chosen = scheduler::select_worker(all.map(), who, now);
    if (chosen.worker == scheduler::no_worker) {
      return {least_waiting(all, f)};
    }
    return {chosen.worker, chosen.must_claim && all.claim(chosen.worker)};
  }

  static std::vector<std::uint64_t> allowed_words(const crew& all, const fiber& f) {
    std::vector<std::uint64_t> words;
    if (!f.allowed.empty()) {
      words.resize(all.map().words());
      for (const unsigned w : f.allowed) {
        words[all.seat_of(w) / 64] |= std::uint64_t{1} << (all.seat_of(w) % 64);
      }
    }
    return words;
  }

  unsigned least_waiting(const crew& all, const fiber& f) {
    const auto n = static_cast<unsigned>(all.workers.size());
    const unsigned start = turn_++ % n;
    unsigned best = nobody;
    for (unsigned k = 0; k < n; ++k) {
      const unsigned i = (start + k) % n;
      if (!f.may_run_on(i)) {
        continue;
      }
      if (all.is_idle(i)) {
        return i;
      }
      if (best == nobody || all.workers[i]->waiting < all.workers[best]->waiting) {
        best = i;
      }
    }
    return best == nobody ? start : best;
  }

  // The overloaded ones first, nearest first; then a few neighbours. The idle class only if there is nothing else anywhere.
  void list_victims(crew& all, worker& thief, loot_kind what) {
    list_.clear();
    was_far_ = false;
    thief.spent += words_of(all) * all.price.probe;
    const bool looks_far = thief.far_thefts.opens(random_.next());
    const bool takes_any[] = {false, true};
    for (const bool takes_idle_class : std::span(takes_any).first(what == loot_kind::anything ? 2 : 1)) {
      const auto add = [&](std::uint32_t w, std::uint8_t distance) {
        if (w != thief.index && (looks_far || distance <= scheduler::distance::same_cache)) {
          list_.push_back({w, distance, takes_idle_class});
        }
        return false;
      };
      const auto overloaded = [&](std::uint32_t i) { return all.overloaded.words()[i]; };
      scheduler::visit_victims(all.map(), thief.index, random_.next(), overloaded, add);
      for (unsigned i = 0; i < probe_max && i < thief.ring.size(); ++i) {
        thief.spent += all.price.probe;
        ++thief.probes;
        const worker& other = *all.workers[thief.ring[i]];
        if (!other.is_overloaded && (other.waiting != 0 || !other.inbox.empty())) {
          add(other.index, all.map().distance_between(thief.index, other.index));
        }
      }
    }
  }

  generator random_;
  std::vector<candidate> list_{};
  std::size_t next_ = 0;
  bool was_far_ = false;
  unsigned turn_ = 0;
};

}  // namespace

std::unique_ptr<placement> make_selecting_placement(std::uint64_t seed) { return std::make_unique<selecting_placement>(seed); }

}  // namespace lagom::sim
