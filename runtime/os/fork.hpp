// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>

// A child that fork() makes of a process with several threads has one of them, and a copy of everybody's memory: also of locks whose
// owners are gone. Nothing of the parent's runtimes works there; what a new one needs is put in order.
namespace lagom::os {

extern std::atomic<std::uint32_t> forks_of_process;

// How many forks this process is away from the one that called watch_forks() first. What was made at another count belongs to a
// process above.
inline std::uint32_t fork_count() noexcept { return forks_of_process.load(std::memory_order_relaxed); }  // changed while alone

// From now on fork() counts, and calls `in_child` on the child's one thread before it returns there. Any number of calls; the last
// function counts. vfork() and clone() by hand are not seen.
void watch_forks(void (*in_child)() noexcept) noexcept;

// What signals.cpp, signal_watch.cpp and stack_trace.cpp have to do there.
void forget_fault_installer() noexcept;
void forget_signal_watches() noexcept;
void forget_stack_asker() noexcept;

}  // namespace lagom::os
