// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <system_error>
#include <thread>

#include <lagom/error.hpp>
#include <lagom/this_fiber.hpp>

#include "fiber/park.hpp"
#include "io/descriptors.hpp"
#include "os/futex.hpp"

// A waist for tests of io/ without workers: threads play the fibers, each with a home of its choice, and the test plays the
// workers. For one source file per program, since these are the functions themselves.

namespace ld = lagom::detail;
namespace os = lagom::os;

namespace {

// One per thread; the ticket's epoch is not needed since each wait here is used once.
struct test_parker : ld::parker {
  test_parker() : parker(holder::thread) {}
  std::atomic<std::uint32_t> state{0};  // 0 quiet, 1 armed, 2 + cause used
  std::atomic<bool> is_parked{false};
};

test_parker& self() {
  thread_local test_parker parker;
  return parker;
}

thread_local ld::io_home home;
std::atomic<int> disarmed{0};

}  // namespace

// The waist and the hook, as far as the table needs them.
namespace lagom {
inline namespace v0 {
namespace detail {

io_home current_io() noexcept { return home; }

ticket arm() noexcept {
  self().state = 1;
  return {&self(), 1};
}

void disarm() noexcept {
  self().state = 0;
  ++disarmed;
}

bool unpark(ticket who, wake cause) noexcept {
  auto& parker = static_cast<test_parker&>(*who.who);
  std::uint32_t armed = 1;
  if (!parker.state.compare_exchange_strong(armed, 2 + static_cast<std::uint32_t>(cause))) return false;
  os::futex_wake(parker.state, 1);
  return true;
}

wake park(wait_reason, std::int64_t expiry, stoppable) noexcept {
  test_parker& parker = self();
  parker.is_parked = true;
  while (parker.state == 1) {
    if (os::futex_wait(parker.state, 1, expiry) == os::futex_result::expired) unpark({&parker, 1}, wake::expired);
  }
  parker.is_parked = false;
  return static_cast<wake>(parker.state.exchange(0) - 2);
}

void spin_wait(const std::atomic<bool>& held) noexcept {
  while (held) std::this_thread::yield();
}

}  // namespace detail

void this_fiber::checkpoint() noexcept {}

const std::error_category& error_category() noexcept { return std::generic_category(); }

}  // namespace v0
}  // namespace lagom
