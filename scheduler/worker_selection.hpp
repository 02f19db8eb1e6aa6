// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <limits>

#include "clamp.hpp"
#include "seating.hpp"
#include "virtual_time.hpp"

// Which worker's run queue a woken or spawned fiber joins.
//
// Linux asks "is anybody idle?", since a thread's stint is long against the interrupt that wakes an idle CPU. A fiber's is
// not: 0.1 to 10 us against microseconds on bare metal and tens of them in a virtual machine. So here the question is what
// the wakee would wait where it is woken, against what it costs to wake somebody else for it:
//
//   it waits less here than a wake-up takes        here: a ping-pong of 1 us stays on one worker
//   it runs for less than a wake-up takes          here too, with all the others that wait: when they have become too many,
//                                                  one sleeping worker is asked to come and take half of them (balancing.hpp)
//   else it is worth a wake-up of its own          to an idle worker, the nearest to where it ran before
//
// Work of the idle class is no work to somebody of the normal classes, who displaces it at once: a worker that has nothing
// else is taken before a sleeping one is searched for. For a wakee of the idle class it is work like any other, and beside
// work of the normal classes it would wait nearly for ever: it goes wherever somebody really sleeps, and if nobody does it
// stays where it was, without looking at any queue (Linux probes queues for it since 2026, and loses a fifth under load).
namespace lagom::scheduler {

inline constexpr nanos forever = std::numeric_limits<nanos>::max();

struct wakee {
  std::uint32_t previous = no_worker;  // where it ran last, and before that
  std::uint32_t recent = no_worker;
  bool is_idle_class = false;
  nanos usual_stint = 0;               // how long it runs at a time
  unsigned utilization = 0;            // these two count where CPUs differ in speed
  clamp_range clamp{};
  seat_words allowed{};                // empty: everywhere
};

struct situation {
  std::uint32_t here = no_worker;  // the waker's; no_worker: a thread of somebody else's, or a worker that takes nobody in
  nanos wait_here = 0;             // about how long the wakee would wait there
  nanos wait_previous = 0;         // and there
  nanos wake_cost = 0;             // until a sleeping worker runs, as measured
  seat_words idle{};               // who sleeps, and may be woken by whoever clears the bit
  seat_words idle_only{};          // who has work of the idle class only
  bool packs = false;              // side by side rather than one per core: fewer workers are awake than clamps ask for
};

// How many workers the clamped utilizations of all run queues call for: with a fifth of each CPU left free, and one more to
// look for work. `used` is their sum, in 1/1024 of a CPU.
[[nodiscard]] constexpr unsigned awake_target(std::uint64_t used) {
  return static_cast<unsigned>((used * 1280 / 1024 + 1023) / 1024) + 1;
}

struct selection {
  std::uint32_t worker = no_worker;  // no_worker: nobody named above may run it; any other that may
  bool must_claim = false;           // it sleeps: clear its bit; if that fails, clear it in the copy and ask again
};

// Pure; O(words of the machine), one word in the usual case.
[[nodiscard]] selection select_worker(const seating& map, const wakee& who, const situation& now);

// May it be left where it is woken without looking any further? The short form of the two first rules, for the way of every
// wake-up. REQUIRES: it may run there.
[[nodiscard]] constexpr bool stays_here(const situation& now, nanos usual_stint) {
  return now.wait_here <= now.wake_cost || (usual_stint <= now.wake_cost && now.wait_here != forever);
}

}  // namespace lagom::scheduler
