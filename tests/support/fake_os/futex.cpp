// SPDX-License-Identifier: BSL-1.0
#include "os/futex.hpp"

#include <utility>

#include "os/assert.hpp"
#include "state.hpp"

namespace lagom::fake_os {

void on_futex_sleep(std::function<void()> hook) { the_state().futex_sleep = std::move(hook); }

}  // namespace lagom::fake_os

namespace lagom::os {

futex_result futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::int64_t expiry_ns) noexcept {
  fake_os::state& fake = fake_os::the_state();
  if (word.load() != expected) {
    fake.futex_waits_in_vain = 0;
    return futex_result::changed;
  }
  if (expiry_ns <= fake.now) {
    return futex_result::expired;
  }
  constexpr std::uint64_t patience = 100'000;
  ++fake.counts.futex_waits;
  ++fake.futex_waits_in_vain;
  LAGOM_ASSERT_MSG(fake.futex_waits_in_vain < patience, "the test waits on a futex that nobody changes");
  if (fake.futex_sleep) {
    fake.futex_sleep();
  }
  return futex_result::woken;
}

int futex_wake(std::atomic<std::uint32_t>&, int) noexcept {
  ++fake_os::the_state().counts.futex_wakes;
  return 0;
}

}  // namespace lagom::os
