// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenario.hpp"
#include "scheduler/entity.hpp"

namespace lagom::sim {

using scheduler::nanos;

// What a fiber does. docs/simulator.md describes each with its JSON.
enum class behaviour : std::uint8_t {
  busy,       // computes for ever
  once,       // computes `run`, ends
  run_sleep,  // computes, sleeps
  periodic,   // wakes on a fixed grid
  pingpong,   // hands a token to its peer
  yield,      // computes, yields
  fork,       // starts children each period
  messages,   // a group: every sender sends to every receiver
  requests,   // a dispatcher and the servers that it wakes
};

struct pattern {
  behaviour what = behaviour::busy;
  nanos run = 0;
  nanos sleep = 0;
  nanos period = 0;
  int spread = 0;          // percent: run and sleep vary uniformly by so much to either side
  std::string peer{};      // of pingpong
  bool first = false;      // of pingpong: holds the token at the start
  bool polite = true;      // comes by checkpoints while it computes
  std::int64_t burst = 1;  // children per period
  std::int64_t times = 0;  // rounds until it ends; 0: for ever
  std::int64_t senders = 1;
  std::int64_t receivers = 1;
  std::int64_t capacity = 100;  // messages a receiver's buffer holds
  std::int64_t servers = 1;
  nanos dispatch = 0;  // what the dispatcher computes for each request
};

struct traits {
  scheduler::policy kind = scheduler::policy::normal;
  int nice = 0;
  nanos slice = 0;  // 0: default mode
  std::optional<unsigned> util_min{}, util_max{};
  std::vector<unsigned> affinity{};  // workers; empty: all
  bool pinned = false;               // stays on the worker that it starts on
};

struct fiber_spec {
  std::string name{};
  std::int64_t count = 1;
  bool is_numbered = false;  // "count" was given: name0, name1, …
  traits attributes{};
  nanos start = 0;
  std::optional<unsigned> home{};  // the worker that it starts on; else as if spawned by a plain thread
  bool goes_home = false;          // when it parks, so that `home` is the worker it ran on last (scenario files)
  pattern does{};
};

// An attribute changes while the simulation runs. What is absent stays.
struct change {
  nanos at = 0;
  std::string who{};
  std::optional<scheduler::policy> kind{};
  std::optional<int> nice{};
  std::optional<nanos> slice{};
  std::optional<unsigned> util_min{}, util_max{};
  std::optional<std::vector<unsigned>> affinity{};
};

struct workload {
  std::string name{};
  std::string about{};
  nanos duration = 0;
  nanos warmup = 0;  // not measured
  std::vector<nanos> phases{};
  std::vector<fiber_spec> fibers{};
  std::vector<change> changes{};
};

// Reads {"name": …, "duration_ns": …, "fibers": […], "events": […]}. Throws input_error: what, where, what would be right.
workload read_workload(const json& document);
workload read_workload_file(const std::string& path);

// Those that come with the program, by name.
struct builtin_workload {
  std::string_view name;
  std::string_view text;
};
const std::vector<builtin_workload>& builtin_workloads();
// A built-in one, else a file.
workload find_workload(const std::string& name_or_path);

std::string_view to_string(scheduler::policy kind);

}  // namespace lagom::sim
