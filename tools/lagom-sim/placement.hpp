// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <memory>

#include "crew.hpp"

namespace lagom::sim {

// Where fibers go and who is robbed: the one door between the simulation and the rules for it. A rule looks at the crew
// and charges what it looks at to `spent` of whoever asks; it changes nothing but idle bits that it claims.
class placement {
 public:
  virtual ~placement() = default;

  // Where a fiber that has become runnable joins, and whether that worker's sleep has been claimed. `here`: the worker
  // whose fiber, timer or inbox made it so; nullptr: some other thread.
  struct destination {
    unsigned worker = nobody;
    bool is_claimed = false;
  };
  virtual destination woken(crew& all, fiber& f, worker* here) = 0;
  virtual destination spawned(crew& all, fiber& f, worker* here) = 0;

  // `busy` has more than it can do soon: a sleeping worker, claimed, that is to come and look, or nobody.
  virtual unsigned helper(crew& all, worker& busy) = 0;

  // Whom `thief` tries next; nobody: no more. `tries` counts from 0 within one search.
  struct victim {
    unsigned worker = nobody;
    unsigned at_most = 0;
    nanos guard = 0;  // who became runnable this recently stays
    bool takes_idle_class = true;
  };
  enum class loot_kind : std::uint8_t { normal_only, anything };
  virtual victim next_victim(crew& all, worker& thief, unsigned tries, loot_kind what) = 0;
  // The search is over.
  virtual void searched(crew&, worker&, bool /*found*/) {}
  // A worker is about to sleep: is there any work elsewhere?
  virtual bool stays_awake(crew& all, worker& w) = 0;

  // Once marked as overloaded a worker is so until a quarter of that waits there.
  [[nodiscard]] virtual bool keeps_mark() const { return false; }
  // A worker that is left with the idle class looks for other work first.
  [[nodiscard]] virtual bool prefers_normal() const { return false; }
  // How often a busy worker compares its load with another's; 0: never. And with whose.
  [[nodiscard]] virtual nanos pull_interval() const { return 0; }
  virtual unsigned pull_partner(crew&, worker&, generator&) { return nobody; }
};

// Neither selection nor pull: a woken fiber joins its waker's worker; a worker where waiting times average stint exceeds
// the cost of a wake-up calls one sleeper; thieves take half, at most eight, nearest victims first.
std::unique_ptr<placement> make_local_placement();
// What the runtime does: scheduler/worker_selection.hpp and scheduler/balancing.hpp.
std::unique_ptr<placement> make_selecting_placement(std::uint64_t seed);

}  // namespace lagom::sim
