// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <deque>
#include <functional>
#include <queue>
#include <string>
#include <unordered_map>
#include <vector>

#include "crew.hpp"
#include "observer.hpp"
#include "placement.hpp"
#include "runtime/worker/constants.hpp"

namespace lagom::sim {

// How the scheduler gets to take a worker away from a fiber.
enum class displacement : std::uint8_t {
  checkpoints,  // as in the runtime: where the fiber comes by
  interrupts,   // as in a kernel: timers and wake-ups at once, the end of a slice at the next tick
};

struct setup {
  scheduler::features knobs = scheduler::features::runtime();
  prices price{};
  nanos tick = 10'000;  // a polite fiber comes by a checkpoint so often; 0: whenever it should give way
  displacement when = displacement::checkpoints;
  nanos jitter = 0;  // timers are late by up to this
  std::uint64_t seed = 1;
  nanos monitor_tick = detail::monitor_tick_ns;
  nanos monitor_tick_max = detail::monitor_tick_max_ns;
};

// Faults that are put in on purpose, to see the checkers find them.
struct faults {
  std::int64_t lose_wake = 0;      // this wake-up is forgotten; 0: none
  bool never_steals = false;       // nobody takes work from others, nobody is called to help
  bool ignores_preemption = false;  // checkpoints do nothing
  bool ignores_weights = false;    // all weigh the same
};

// Plays a workload on virtual workers in virtual time, with the run queues of scheduler/ themselves. What the workers do
// mirrors runtime/worker; each function names the one it stands for. Deterministic: no clock, no address, one generator.
class engine {
 public:
  engine(const workload& what, crew& all, const setup& how, placement& where, const faults& wrong = {});
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  void watch(observer& o) { observers_.push_back(&o); }
  // Calls `what` at multiples of `interval`. Before run().
  void every(nanos interval, std::function<void(nanos now)> what) { periodic_.push_back({interval, std::move(what)}); }
  // Once only. Until the workload's end, or until nothing can happen any more.
  void run();

  [[nodiscard]] const std::deque<fiber>& fibers() const { return fibers_; }
  [[nodiscard]] const crew& all() const { return all_; }
  [[nodiscard]] std::uint64_t events() const { return events_; }
  [[nodiscard]] std::uint64_t switches() const { return switches_; }
  [[nodiscard]] std::uint64_t decisions() const { return decisions_; }

  // "name3", "group0.s2"
  [[nodiscard]] static std::string name_of(const fiber& f);

 private:
  enum class event_kind : std::uint8_t { turn, start, change, monitor, mark, periodic };
  struct event {
    nanos at;
    std::uint64_t order;
    event_kind what;
    std::size_t index;
    friend bool operator>(const event& a, const event& b) {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };
  struct repeated {
    nanos interval;
    std::function<void(nanos)> what;
  };
  enum class next_act : std::uint8_t { compute, again, sleep, block, yield, end };

  // engine.cpp: events, beginnings, changes
  void happen(const event& e);
  void post(nanos at, event_kind what, std::size_t index);
  void take_turn(worker& w, nanos at);
  void start(fiber& f);
  void apply(const change& c);
  void apply_to(const change& c, fiber& f);
  void move_off(fiber& f);
  void look_after_all();
  void attend(worker& w);
  void remind();
  void call_for_bound(worker& w);

  // population.cpp
  void populate();
  fiber& make(const fiber_spec& spec, std::int64_t number, behaviour what);
  void make_group(const fiber_spec& spec, std::int64_t number);
  void make_servers(const fiber_spec& spec, std::int64_t number);
  void set_attributes(fiber& f, const traits& t);
  void find_peers();

  // steps.cpp: what a worker does
  void turn(worker& w);
  void step(worker& w);
  void begin(worker& w, fiber& f);
  void look(worker& w);
  void carry_on(worker& w, fiber& f);
  bool checkpoint(worker& w, fiber& f);
  void leave(worker& w, fiber& f, departure how);
  void switch_to(worker& w, fiber& f, scheduler::entity* chosen, departure how);
  void plan(worker& w);
  [[nodiscard]] nanos next_checkpoint(const worker& w) const;
  [[nodiscard]] nanos next_interrupt(const worker& w) const;
  void serve(worker& w);
  void empty_inbox(worker& w);
  void end_stint(worker& w, fiber& f, departure how);
  void join(worker& w, fiber& f, scheduler::joining why);
  void depart(worker& w, fiber& f);
  void publish(worker& w);
  void pass_time(worker& w);

  // evening.cpp: shares across workers, CPUs of several speeds
  void even_out(worker& w);
  void pull_from(worker& other, worker& w);
  [[nodiscard]] bool wants_faster_cpu(const worker& w, const fiber& f) const;
  void send_away(worker& w, fiber& f, scheduler::joining why);

  // searching.cpp: idle workers
  struct haul {
    unsigned taken = 0;
    bool is_any_too_fresh = false;
  };
  bool steal(worker& w, placement::loot_kind what);
  haul rob(worker& victim, worker& thief, const placement::victim& what);
  void poll(worker& w);
  bool spin(worker& w);
  void sleep(worker& w);
  void get_up(worker& w);
  void stop_searching(worker& w);
  void ask_for_help(worker& w);
  void make_searcher(unsigned helper);
  void notify(worker& w);
  void nudge_monitor();
  void note_work(worker& w);

  // behaviours.cpp: what a fiber does
  next_act proceed(worker& w, fiber& f);
  next_act be_sleeper(fiber& f);
  next_act be_pingpong(worker& w, fiber& f);
  next_act be_parent(worker& w, fiber& f);
  next_act be_sender(worker& w, fiber& f);
  next_act be_receiver(worker& w, fiber& f);
  next_act be_dispatcher(worker& w, fiber& f);
  next_act be_server(worker& w, fiber& f);
  next_act compute(fiber& f, nanos work);
  bool is_through(fiber& f);
  nanos varied(fiber& f, nanos about);
  void unpark(fiber& f, worker* here);
  void route(fiber& f, scheduler::joining why, worker* here);
  void send(fiber& f, scheduler::joining why, worker& to, worker* here);

  template <class Tell>
  void tell(Tell&& how) {
    for (observer* o : observers_) {
      how(*o);
    }
  }

  const workload& what_;
  crew& all_;
  setup how_;
  placement& where_;
  faults wrong_;
  std::vector<observer*> observers_{};
  std::vector<repeated> periodic_{};

  std::deque<fiber> fibers_{};
  std::deque<group> groups_{};
  std::deque<fiber_spec> child_specs_{};
  std::vector<fiber*> graves_{};  // ended children, for reuse
  std::priority_queue<event, std::vector<event>, std::greater<>> events_to_come_{};
  std::uint64_t order_ = 0;
  std::uint64_t alarm_order_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t switches_ = 0;
  std::uint64_t decisions_ = 0;
  std::int64_t wakes_ = 0;
  nanos now_ = 0;

  std::vector<unsigned> spinners_{};
  std::vector<std::uint8_t> has_work_{};  // by worker: somebody waits there
  std::size_t with_work_ = 0;

  nanos monitor_tick_ = 0;
  bool monitor_sleeps_ = false;
  std::vector<std::uint64_t> monitor_seen_{};
  nanos next_reminder_ = 0;
  bool somebody_waits_ = false;
  generator random_;
};

}  // namespace lagom::sim
