// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "scenario.hpp"
#include "scheduler/run_queue.hpp"

namespace lagom::sim {

// What a scenario spawns: the policy's entity and what the simulator wants to know of it.
struct actor : scheduler::entity {
  std::string name{};
  bool is_batch = false;
  std::int64_t burst = 0;  // driven by loop: runs this long, then sleeps
  std::int64_t sleep = 0;
  std::int64_t left = 0;  // of the burst
  std::int64_t woken_at = -1;
  std::int64_t picks = 0;
  std::int64_t lag_min = 0;  // extreme service lags at picks
  std::int64_t lag_max = 0;
  std::int64_t waits = 0;
  std::int64_t wait_sum = 0;
  std::int64_t wait_max = 0;
  int timers = 0;
};

// Runs one scenario through one run queue. Every input gives one output: nothing depends on time or address.
class replay {
 public:
  explicit replay(const scenario& what);
  // {"steps": […], "switches": …, "picks": […], "summary": {…}}. Throws input_error. Once only.
  json run();

 private:
  struct timer {
    std::int64_t at;
    std::int64_t order;
    actor* who;
  };

  void happen(const event& e);
  void spawn(const event& e);
  void wake(actor& who, scheduler::joining why);
  void block(const event& e);
  void exit(const event& e);
  void change_idle(const event& e, actor& who);
  void loop(const event& e);
  void after_loop_step(std::int64_t ran);
  [[nodiscard]] std::int64_t next_loop_step(std::int64_t most) const;

  void account(std::int64_t ns);
  void schedule();
  void decided(bool wants_pick);
  void note_lags();
  actor& find(const event& e);
  actor& queued_current(const event& e, const char* what);
  [[nodiscard]] actor* current() const { return static_cast<actor*>(queue_.current()); }

  [[nodiscard]] json snapshot(std::size_t index, const std::string& label) const;
  [[nodiscard]] json picks() const;
  [[nodiscard]] json summary() const;

  const scenario& scenario_;
  scheduler::run_queue queue_;
  std::int64_t now_ = 0;
  std::int64_t switches_ = 0;
  std::int64_t timer_order_ = 0;
  std::deque<actor> actors_;  // never moves what it holds
  std::vector<actor*> in_order_;
  std::unordered_map<std::string, std::size_t> places_;
  std::vector<timer> timers_;
  std::vector<std::pair<const actor*, std::int64_t>> stints_;
};

}  // namespace lagom::sim
