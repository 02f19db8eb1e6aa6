// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "generator.hpp"
#include "runtime/worker/seat_plan.hpp"
#include "scheduler/balancing.hpp"
#include "scheduler/clamp.hpp"
#include "scheduler/run_queue.hpp"
#include "scheduler/utilization.hpp"
#include "topology/topology.hpp"
#include "workload.hpp"

// Fibers and workers of the simulation: the data, without what they do.
namespace lagom::sim {

inline constexpr nanos never = INT64_MAX;
inline constexpr unsigned nobody = ~0u;

// What things cost, in nanoseconds of virtual time. docs/simulator.md says what is charged when.
struct prices {
  nanos probe = 60;         // looking at a word of another worker
  nanos remote_line = 150;  // writing to one
  nanos wake = 30'000;      // until a worker that sleeps in the kernel runs
  nanos spin = 20'000;      // an idle worker looks for work this long before it sleeps
  nanos change = 30;        // a switch
  nanos call = 10;          // a call that does not switch
};

enum class stage : std::uint8_t { unborn, runnable, running, blocked, ended };

struct group;

struct fiber : scheduler::entity {
  const fiber_spec* spec = nullptr;
  unsigned id = 0;
  unsigned number = 0;  // among those of its spec
  stage state = stage::unborn;
  behaviour what = behaviour::busy;
  bool was_woken = false;
  bool has_run = false;
  bool is_pinned = false;
  bool is_measured = true;   // false for the children of fork
  bool is_server = false;    // receives messages, answers requests
  bool holds_token = false;
  std::uint8_t phase = 0;    // of its behaviour
  unsigned home = nobody;    // the worker whose queue it is on, or was last
  nanos since = 0;           // in this state
  std::int64_t left = 0;     // of the present computation, in ns * 1024 of a full-speed CPU
  nanos due = 0;
  nanos posted_at = 0;
  nanos began = 0;           // of its life
  nanos first_ran = 0;
  nanos served = 0;          // virtual time on workers
  std::int64_t loops = 0;
  std::int64_t times_left = 0;
  std::int64_t tokens = 0;
  scheduler::joining arrival = scheduler::joining::woken;
  fiber* peer = nullptr;     // partner, parent or dispatcher
  group* team = nullptr;
  unsigned place_in_team = 0;
  std::vector<unsigned> allowed{};  // sorted; empty: everywhere
  std::vector<fiber*> visitors{};   // who waits for room in my buffer, who has reported to me
  generator random{0};
  int nice = 0;
  scheduler::clamp_range clamp{};

  // As in the runtime's fibers.
  nanos usual_stint = 0;
  unsigned recent = scheduler::no_worker;  // the worker before the last
  scheduler::utilization usage{};
  unsigned usual_usage = 0;  // at the end of its last stints
  bool is_bound = false;     // counted in worker::bound

  // The weight that its attributes give it.
  [[nodiscard]] scheduler::weight deserved() const {
    return kind == scheduler::policy::idle ? scheduler::idle_weight : scheduler::weight_of_nice(nice);
  }
  [[nodiscard]] bool may_run_on(unsigned worker) const {
    return allowed.empty() || std::binary_search(allowed.begin(), allowed.end(), worker);
  }
};

// One group of messages.
struct group {
  std::vector<fiber*> receivers{};
};

enum class doing : std::uint8_t { looking, running, spinning, parked, waking };

struct alarm {
  nanos at;
  std::uint64_t order;
  fiber* who;
};

struct worker {
  worker(unsigned i, const scheduler::features& knobs) : index(i), queue(knobs) {}

  const unsigned index;
  std::size_t cpu = 0;
  unsigned capacity = 1024;
  std::vector<unsigned> ring{};  // the others, nearest first

  scheduler::run_queue queue;
  std::vector<fiber*> inbox{};
  std::vector<alarm> alarms{};  // a heap, earliest first
  fiber* running = nullptr;
  doing state = doing::parked;

  // Of the running fiber.
  nanos stint_began = 0;
  nanos computes_from = 0;  // later than stint_began by what the switch and its own calls cost
  nanos grid_from = 0;      // checkpoints come at multiples of the tick after this
  nanos look_again = 0;
  nanos spent = 0;          // charged in this turn, not yet passed

  // As in the runtime's workers.
  std::int64_t stint = 30'000;  // moving average
  unsigned waiting = 0;
  unsigned bound = 0;      // queued here and tied to some workers
  bool is_overloaded = false;
  nanos too_much_since = never;  // more waits here than a wake-up of somebody costs
  bool is_idle_only = false;
  bool looks_for_normal = false, looks_for_faster = false;
  bool saw_unmovable = false;
  unsigned failed_thefts = 0;
  scheduler::theft_gate far_thefts{};
  nanos next_even_out = 0;
  std::uint64_t probes = 0;  // looks at other workers' queues
  bool resched = false;
  bool is_searcher = false;
  nanos spin_from = 0, spin_until = 0;
  nanos parked_at = 0;
  nanos idle_average = 0;
  std::uint64_t steps = 0;

  // Of the engine.
  nanos turn_at = never;
  std::uint64_t turn_order = 0;  // of the one event that counts
  nanos accounted_until = 0;

  [[nodiscard]] bool has_current() const { return queue.current() != nullptr && queue.current()->on_rq; }
  [[nodiscard]] nanos next_alarm() const { return alarms.empty() ? never : alarms.front().at; }
};

// One bit per seat of a machine, and how many are set.
class seat_bits {
 public:
  explicit seat_bits(std::size_t words) : words_(words) {}

  // True: it was otherwise.
  bool set(unsigned seat, bool on) {
    std::uint64_t& word = words_[seat / 64];
    const std::uint64_t bit = std::uint64_t{1} << (seat % 64);
    if (((word & bit) != 0) == on) {
      return false;
    }
    word ^= bit;
    count_ += on ? 1U : 0U;
    count_ -= on ? 0U : 1U;
    return true;
  }
  [[nodiscard]] bool test(unsigned seat) const { return (words_[seat / 64] >> (seat % 64) & 1) != 0; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] const std::vector<std::uint64_t>& words() const { return words_; }

 private:
  std::vector<std::uint64_t> words_;
  std::size_t count_ = 0;
};

struct crew {
  crew(topology::machine m, topology::worker_plan p, const scheduler::features& knobs, const prices& price);

  [[nodiscard]] topology::distance distance(unsigned a, unsigned b) const {
    return topology::distance_between(machine, workers[a]->cpu, workers[b]->cpu);
  }
  [[nodiscard]] const scheduler::seating& map() const { return seats.map(); }
  [[nodiscard]] unsigned seat_of(unsigned w) const { return seats.seat_of(w); }
  [[nodiscard]] bool is_idle(unsigned w) const { return idle.test(seat_of(w)); }
  // True: it slept; now it is the caller's to wake.
  bool claim(unsigned w) { return idle.set(seat_of(w), false); }

  topology::machine machine;
  topology::worker_plan plan;
  detail::seat_plan seats;
  prices price;
  std::vector<std::unique_ptr<worker>> workers{};
  seat_bits idle;        // who sleeps; cleared by the sleeper or by one claimer
  seat_bits idle_only;   // who has work of the idle class only
  seat_bits overloaded;  // where more waits than is worth the cost of waking another worker
  unsigned searchers = 0;
  nanos now = 0;
};

}  // namespace lagom::sim
