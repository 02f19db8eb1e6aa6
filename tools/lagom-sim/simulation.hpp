// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <memory>
#include <string>

#include "checkers.hpp"
#include "measures.hpp"

namespace lagom::sim {

struct run_request {
  workload what{};
  std::string topology{};
  std::size_t workers = 0;  // 0: one for each CPU of the topology
  setup how{};
  limits bounds{};
  faults wrong{};
  std::string placement = "selecting";
};

// One run and all that is known about it.
class simulation {
 public:
  // Throws input_error, std::invalid_argument and std::system_error (topology).
  explicit simulation(run_request given);
  simulation(const simulation&) = delete;
  simulation& operator=(const simulation&) = delete;
  void watch(observer& o) { engine_->watch(o); }
  void run();

  [[nodiscard]] const run_request& request() const { return given_; }
  [[nodiscard]] const crew& all() const { return *all_; }
  [[nodiscard]] const engine& played() const { return *engine_; }
  [[nodiscard]] const measures& figures() const { return *measures_; }
  [[nodiscard]] const checkers& judged() const { return *checkers_; }
  [[nodiscard]] bool is_sound() const { return checkers_->found().empty(); }

 private:
  run_request given_;
  std::unique_ptr<crew> all_;
  std::unique_ptr<placement> placement_;
  std::unique_ptr<engine> engine_;
  std::unique_ptr<measures> measures_;
  std::unique_ptr<checkers> checkers_;
};

// run_report.cpp, page.cpp
std::string text_report(const simulation& done);
json json_report(const simulation& done);
std::string html_report(const simulation& done);

}  // namespace lagom::sim
