// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fake_os.hpp"

namespace lagom::fake_os {

struct thread_state {
  std::string name;
  std::function<void()> body;
  bool has_run = false;
};

struct registration {
  os::interest wanted = os::interest::none;
  std::uint64_t token = 0;
  bool armed = true;
  std::uint64_t edge_seen = 0;
};

struct poller_state {
  std::map<int, registration> registrations;  // ordered: events come in the order of descriptors
};

struct readiness_state {
  os::readiness ready = os::readiness::none;
  std::uint64_t edge = 0;
};

struct state {
  std::int64_t now = time_at_start;
  counters counts;
  std::uint64_t futex_waits_in_vain = 0;
  std::function<void()> futex_sleep;
  std::vector<thread_state> threads;
  std::map<int, poller_state> pollers;
  int next_poller = 1;
  std::map<int, readiness_state> descriptors;
  std::vector<wait_record> waits;
  std::function<void(const wait_record&)> sleep;
  std::vector<clamp_call> clamp_calls;
  int clamp_probe_error = 0, clamp_set_error = 0;
};

state& the_state() noexcept;

}  // namespace lagom::fake_os
