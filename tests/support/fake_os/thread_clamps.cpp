// SPDX-License-Identifier: BSL-1.0
#include "os/thread_clamps.hpp"

#include "state.hpp"

namespace lagom::fake_os {

const std::vector<clamp_call>& clamp_calls() noexcept { return the_state().clamp_calls; }

void fail_clamps(int probe, int set) noexcept {
  the_state().clamp_probe_error = probe;
  the_state().clamp_set_error = set;
}

}  // namespace lagom::fake_os

namespace lagom::os {

int probe_thread_clamps() noexcept { return fake_os::the_state().clamp_probe_error; }

int set_thread_clamps(int thread, int min, int max) noexcept {
  fake_os::the_state().clamp_calls.push_back({thread, min, max, fake_os::now()});
  return fake_os::the_state().clamp_set_error;
}

}  // namespace lagom::os
