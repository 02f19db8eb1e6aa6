// SPDX-License-Identifier: BSL-1.0
#include "os/clock.hpp"

#include "os/assert.hpp"
#include "state.hpp"

namespace lagom::fake_os {

state& the_state() noexcept {
  static state only;
  return only;
}

void reset() {
  LAGOM_ASSERT_MSG(the_state().pollers.empty(), "a poller outlives its test");
  the_state() = state{};
}

std::int64_t now() noexcept { return the_state().now; }

void advance(std::int64_t nanoseconds) {
  LAGOM_ASSERT(nanoseconds >= 0);
  the_state().now = os::saturating_add(the_state().now, nanoseconds);
}

void advance_to(std::int64_t time) {
  LAGOM_ASSERT(time >= the_state().now);
  the_state().now = time;
}

const counters& counts() noexcept { return the_state().counts; }

}  // namespace lagom::fake_os

namespace lagom::os {

std::int64_t monotonic_ns() noexcept {
  ++fake_os::the_state().counts.clock_reads;
  return fake_os::now();
}

std::int64_t thread_cpu_ns() noexcept { return fake_os::now() - fake_os::time_at_start; }

std::uint64_t ticks_per_us() noexcept { return 1000; }

// A fit that covers nothing: every now() comes to anchor().
fast_clock::fast_clock() noexcept = default;

std::int64_t fast_clock::anchor() noexcept {
  latest_ns_ = monotonic_ns();
  return latest_ns_;
}

}  // namespace lagom::os
