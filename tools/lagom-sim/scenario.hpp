// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "scheduler/features.hpp"
#include "scheduler/weight.hpp"

namespace lagom::sim {

// Keeps the order of keys: output reads like the scenario.
using json = nlohmann::ordered_json;

// The input is wrong. what() says where, what is wrong and what would be right.
class input_error : public std::runtime_error {
 public:
  input_error(const std::string& where, const std::string& what) : std::runtime_error(where + ": " + what) {}
};

enum class verb {
  spawn, run, tick, sched, wake, block, exit, yield, yield_to, nice, weight, slice, idle, base, detach, attach, loop
};

// One event, checked for form; what it refers to is checked when it happens.
struct event {
  verb what = verb::run;
  std::string where{};  // "events[3]" or "events[3].do[0]", for messages
  std::string id{};
  scheduler::weight share = scheduler::nice_0_weight;
  bool is_idle = false;
  std::optional<bool> on{};
  bool is_batch = false;
  bool is_initial = true;
  std::int64_t ns = 0;     // of run, slice, base, loop
  std::int64_t slice = 0;  // of spawn
  std::int64_t vlag = 0;   // virtual nanoseconds
  std::int64_t burst = 0;
  std::int64_t sleep = 0;
  std::optional<std::int64_t> tick{};  // of loop
};

// One line of the scenario: what is reported once.
struct step {
  std::string label{};
  std::vector<event> events{};
  std::int64_t repeat = 1;
};

enum class resched_rule { now, tick };
enum class report_rule { all, final, none };

struct config {
  scheduler::features knobs{};
  resched_rule resched = resched_rule::now;
  report_rule state = report_rule::all;
  std::int64_t tick = 1'000'000;
};

struct scenario {
  config settings{};
  std::vector<step> steps{};
};

// Reads {"config": {…}, "events": […]} or an object that holds such a one as "input". Throws input_error.
scenario read_scenario(const json& document);
// The same from a file. Throws input_error, also when the file cannot be read or is no JSON.
scenario read_scenario_file(const std::string& path);

// Any file as JSON. Throws input_error.
json read_json_file(const std::string& path);

}  // namespace lagom::sim
