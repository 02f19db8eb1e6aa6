// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <vector>

#include "engine.hpp"
#include "observer.hpp"

namespace lagom::sim {

// What must hold in any run. Each bound: 0 stands for the default, which docs/simulator.md derives.
struct limits {
  nanos idle_while_runnable = 0;  // a fiber waits that an idle worker might run
  nanos lag = 0;                  // service owed or owing
  nanos starved = 0;              // a runnable fiber waits
  bool check = true;
};

struct violation {
  std::string rule{};  // "lost fiber", "idle while runnable", "lag", "starved", "share"
  nanos at = 0;
  std::string what{};
};

// Looks at everything now and then and at the end.
class checkers : public observer {
 public:
  checkers(const workload& what, const crew& all, const setup& how, const limits& given);
  // Adds itself. Before engine::run().
  void attach(engine& e);
  // At the end of the run.
  void finish();

  void moved(const fiber&, unsigned from, unsigned to, journey) override;
  void stint(const fiber&, const worker&, nanos from, nanos to, departure) override;

  // The first of each rule, in the order of time.
  [[nodiscard]] const std::vector<violation>& found() const { return found_; }
  [[nodiscard]] nanos worst_lag() const { return worst_lag_; }
  [[nodiscard]] nanos lag_bound() const { return limits_.lag; }
  [[nodiscard]] nanos idle_bound() const { return limits_.idle_while_runnable; }

 private:
  void look_for_idle(nanos now);
  void look_at_queues(nanos now);
  void look_for_lost(nanos now);
  void judge_shares(nanos now);
  void report(const char* rule, nanos at, std::string what);

  const workload& what_;
  const crew& all_;
  limits limits_;
  engine* engine_ = nullptr;
  std::vector<violation> found_{};
  nanos worst_lag_ = 0;
  // By fiber, for the shares: served since the fiber came to its present worker.
  struct stay {
    nanos since = 0;
    nanos served = 0;
  };
  std::vector<stay> stays_{};
};

}  // namespace lagom::sim
