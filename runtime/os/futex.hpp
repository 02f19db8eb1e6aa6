// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>

namespace lagom::os {

enum class futex_result {
  woken,    // by futex_wake, by a signal, or for no reason: look at the word again
  expired,  // the expiry has passed
  changed,  // the word was not the expected value when the kernel looked
};

// Blocks the calling OS thread while word == expected, until futex_wake or expiry_ns (absolute, CLOCK_MONOTONIC;
// os::never: no limit; in the past: returns expired at once if the word is unchanged). Private to the process.
// The comparison and going to sleep are one step with respect to futex_wake. Orders nothing by itself:
// load the word with the ordering you need afterwards.
futex_result futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::int64_t expiry_ns) noexcept;

// Wakes at most count threads waiting on word; returns how many. The word may already be gone: never dereferenced.
int futex_wake(std::atomic<std::uint32_t>& word, int count) noexcept;

}  // namespace lagom::os
