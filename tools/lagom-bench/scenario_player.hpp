// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <list>

#include "scenario_stage.hpp"

namespace lagom::bench {

/// Where one thread of a scenario stands, as it sees it itself. `Machine` is what fibers and OS threads do differently:
///   unsigned cpu()                 where the caller runs
///   void look(nanos now)           a moment at which the scheduler may take the CPU away
///   void sleep_until(nanos)
///   void yield()
///   void go_home()                 before a sleep
///   class wait, class task, start(), for_child(), cpu_time()   for tokens and children
template <class Machine>
class probe {
 public:
  using nanos = scenarios::nanos;

  /// `log` may be null: then only the slots are kept.
  probe(Machine& machine, cpu_slots& slots, std::uint32_t id, const scenarios::span& measured, scenarios::thread_log* log)
      : machine_(machine), slots_(slots), id_(id), measured_(measured), log_(log) {}

  /// The thread begins to run, after its start or a wake-up.
  void enter() { claim(machine_.cpu(), scenarios::thread_log::start::woken); }

  /// The thread is about to block or to end.
  void leave() {
    observe();
    end_burst();
  }

  /// Brings the view up to date. Returns the running time gained since the last look.
  nanos observe() {
    const nanos now = monotonic_now();
    const unsigned cpu = machine_.cpu();
    if (cpu != cpu_ || slots_.owner(cpu) != id_) {
      end_burst();
      claim(cpu, scenarios::thread_log::start::resumed);
      return 0;
    }
    const nanos gained = now - last_;
    last_ = now;
    machine_.look(now);
    // Nobody of the scenario took this time: interrupts, the hypervisor, other programs.
    constexpr nanos longest_look = 100'000;
    if (gained > longest_look) {
      foreign_ += gained;
      return 0;
    }
    return gained;
  }

  void run_for(nanos work) {
    while (work > 0 && !is_over()) {
      work -= observe();
    }
  }

  nanos last() const { return last_; }
  bool is_over() const { return last_ >= measured_.end; }

 private:
  void claim(unsigned cpu, scenarios::thread_log::start how) {
    cpu_ = cpu;
    slots_.claim(cpu, id_);
    last_ = monotonic_now();
    foreign_ = 0;
    if (log_ != nullptr) {
      log_->begin_burst(last_, cpu, how);
    }
  }

  void end_burst() {
    if (log_ != nullptr) {
      log_->end_burst(last_, foreign_);
    }
  }

  Machine& machine_;
  cpu_slots& slots_;
  std::uint32_t id_;
  const scenarios::span& measured_;
  scenarios::thread_log* log_;
  unsigned cpu_ = 0;
  nanos last_ = 0;
  nanos foreign_ = 0;  // in this burst
};

/// The token that two partners hand to each other.
template <class Wait>
struct token {
  Wait arrived{};
  std::atomic<scenarios::nanos> posted_at{0};
};

/// Plays the pattern of one thread until the scenario is over.
template <class Machine>
class player {
 public:
  using nanos = scenarios::nanos;
  using token_type = token<typename Machine::wait>;

  struct part {
    const scenarios::thread_spec& spec;
    const scenarios::span& measured;
    scenarios::thread_log& log;
    cpu_slots& slots;
    std::uint32_t id;
    token_type* own_token;   ///< pingpong
    token_type* peer_token;
  };

  player(Machine& machine, const part& what)
      : machine_(machine), spec_(what.spec), measured_(what.measured), log_(what.log), what_(what),
        probe_(machine, what.slots, what.id, what.measured, &what.log) {}

  void play() {
    machine_.sleep_until(measured_.origin + spec_.start);
    probe_.enter();
    switch (spec_.pattern.kind) {
      case scenarios::pattern_kind::busy: return play_busy();
      case scenarios::pattern_kind::run_sleep: return play_run_sleep();
      case scenarios::pattern_kind::periodic: return play_periodic();
      case scenarios::pattern_kind::pingpong: return play_pingpong();
      case scenarios::pattern_kind::yield: return play_yield();
      case scenarios::pattern_kind::fork: return play_fork();
    }
  }

 private:
  void play_busy() {
    while (!probe_.is_over()) {
      probe_.observe();
      log_.note_loop();
    }
    probe_.leave();
  }

  /// Sleeps until the time that next_due(falling asleep) gives. False when the scenario is over.
  template <class NextDue>
  bool sleep(const NextDue& next_due) {
    probe_.leave();
    machine_.go_home();
    due_ = next_due(monotonic_now());
    machine_.sleep_until(std::min(due_, measured_.end));
    probe_.enter();
    if (due_ >= measured_.end) {
      return false;
    }
    log_.note_wake(due_, probe_.last());
    return true;
  }

  /// The first point after t of the grid on which due_ lies: whoever is late leaves points out.
  nanos next_on_grid(nanos t) const {
    const nanos period = spec_.pattern.period;
    return due_ + std::max<nanos>(1, (t - due_ + period - 1) / period) * period;
  }

  void work() {
    probe_.run_for(spec_.pattern.run);
    log_.note_response(due_, probe_.last());
    log_.note_loop();
  }

  void play_run_sleep() {
    due_ = probe_.last();
    do {
      work();
    } while (sleep([this](nanos t) { return t + spec_.pattern.sleep; }));
  }

  void play_periodic() {
    due_ = measured_.origin + spec_.start;
    do {
      work();
    } while (sleep([this](nanos t) { return next_on_grid(t); }));
  }

  void play_pingpong() {
    bool has_token = spec_.pattern.has_token;
    while (!probe_.is_over()) {
      if (!has_token) {
        probe_.leave();
        const bool has_arrived = what_.own_token->arrived.wait_until(measured_.end);
        probe_.enter();
        if (!has_arrived) {
          return;
        }
        // relaxed: the token itself orders it.
        log_.note_wake(what_.own_token->posted_at.load(std::memory_order_relaxed), probe_.last());
      }
      has_token = false;
      probe_.run_for(spec_.pattern.run);
      log_.note_loop();
      what_.peer_token->posted_at.store(monotonic_now(), std::memory_order_relaxed);  // as above
      what_.peer_token->arrived.post();
    }
  }

  void play_yield() {
    while (!probe_.is_over()) {
      probe_.run_for(spec_.pattern.run);
      machine_.yield();
      probe_.observe();
      log_.note_loop();
    }
    probe_.leave();
  }

  struct child {
    nanos created = 0;
    nanos began = 0;
    nanos done = 0;
    nanos used = 0;
    std::atomic<bool> has_ended{false};
    typename Machine::task task{};
  };

  void run_child(child& c, std::uint32_t id) {
    Machine machine = machine_.for_child();
    probe<Machine> mine(machine, what_.slots, id, measured_, nullptr);
    mine.enter();
    c.began = mine.last();
    mine.run_for(spec_.pattern.run);
    c.done = mine.last();
    c.used = machine.cpu_time();
    c.has_ended.store(true, std::memory_order_release);  // pairs with collect()
  }

  void collect(child& c) {
    c.task.join();
    log_.note_child(c.created, c.began, c.done, c.used);
  }

  void play_fork() {
    std::list<child> children;
    std::uint32_t next_id = what_.id << 16;
    due_ = measured_.origin + spec_.start;
    do {
      children.remove_if([this](child& c) {
        const bool has_ended = c.has_ended.load(std::memory_order_acquire);  // pairs with run_child()
        if (has_ended) collect(c);
        return has_ended;
      });
      child& c = children.emplace_back();
      const std::uint32_t id = next_id++;
      c.created = monotonic_now();
      c.task = machine_.start([this, &c, id] { run_child(c, id); });
      log_.note_loop();
    } while (sleep([this](nanos t) { return next_on_grid(t); }));
    for (child& c : children) {
      collect(c);
    }
  }

  Machine& machine_;
  const scenarios::thread_spec& spec_;
  const scenarios::span& measured_;
  scenarios::thread_log& log_;
  part what_;
  probe<Machine> probe_;
  nanos due_ = 0;
};

}  // namespace lagom::bench
