// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <memory>

#include "crew.hpp"

namespace lagom::sim {

// Where fibers go and who is robbed: the one door between the simulation and the rules for it. A rule looks at the crew
// and charges what it looks at to `asker.spent`; it changes nothing but idle bits that it claims.
class placement {
 public:
  virtual ~placement() = default;

  // Where a fiber that has become runnable joins. `here`: the worker whose fiber, timer or inbox made it so; nullptr: some
  // other thread. The answer's idle bit is claimed by the engine when it sends.
  virtual unsigned woken(crew& all, fiber& f, worker* here) = 0;
  virtual unsigned spawned(crew& all, fiber& f, worker* here) = 0;

  // `busy` has more than it can do soon: a sleeping worker, claimed, that is to come and look, or nobody.
  virtual unsigned helper(crew& all, worker& busy) = 0;

  // Whom `thief` tries next; nobody: no more. `tries` counts from 0 within one search.
  struct victim {
    unsigned worker = nobody;
    unsigned at_most = 0;
    nanos guard = 0;  // who became runnable this recently stays
  };
  virtual victim next_victim(crew& all, worker& thief, unsigned tries) = 0;

  // What it costs to look, before sleeping, whether anybody has too much.
  [[nodiscard]] virtual nanos last_look(const crew& all) const = 0;

  // Every pull_interval a busy worker may pull one fiber from another for fairness; 0: never.
  [[nodiscard]] virtual nanos pull_interval() const { return 0; }
  virtual victim slow_pull(crew&, worker&) { return {}; }
  // Of those waiting there, the one to pull.
  virtual fiber* pulled(crew&, worker&, worker&) { return nullptr; }
};

// What the runtime does today: a woken fiber joins its waker's worker; a worker where waiting times average stint exceeds
// the cost of a wake-up calls one sleeper; thieves take half, at most eight, nearest victims first.
std::unique_ptr<placement> make_local_placement();

}  // namespace lagom::sim
