// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "crew.hpp"

namespace lagom::sim {

enum class departure : std::uint8_t { displaced, yielded, parked, exited };
enum class journey : std::uint8_t { wake, spawn, steal, pull };
enum class spending : std::uint8_t { normal, batch, idle_class, searching, waking, asleep };

// Who wants to know what happens. Times are virtual.
class observer {
 public:
  virtual ~observer() = default;

  // f ran on w; `is_first`: the first stint since it became runnable.
  virtual void stint(const fiber&, const worker&, nanos /*from*/, nanos /*to*/, departure) {}
  // f begins to run on w, for the first time after a wake-up if f.was_woken, having waited so long in queues.
  virtual void began(const fiber&, const worker&, nanos /*at*/, nanos /*waited*/) {}
  // f goes on after a wait that was to end at `due`.
  virtual void woke(const fiber&, nanos /*due*/, nanos /*ran*/) {}
  // What was due is done.
  virtual void responded(const fiber&, nanos /*due*/, nanos /*done*/) {}
  virtual void child_began(const fiber& /*parent*/, nanos /*created*/, nanos /*began*/) {}
  virtual void child_ended(const fiber& /*parent*/, const fiber& /*child*/, nanos /*at*/) {}
  virtual void moved(const fiber&, unsigned /*from*/, unsigned /*to*/, journey) {}
  virtual void worker_woken(const worker&, nanos /*at*/) {}
  virtual void searched(const worker&, bool /*found*/) {}
  virtual void spent(const worker&, spending, nanos /*from*/, nanos /*to*/) {}
  // One of the moments of the workload: warm-up over, a phase mark.
  virtual void mark(nanos /*at*/) {}
};

}  // namespace lagom::sim
