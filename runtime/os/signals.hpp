// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace lagom::os {

// Is the faulting address in one of our guards? Then writes a line about it to fd and returns true. Runs inside a
// signal handler, on any thread: async-signal-safe, reads only what cannot go away.
using describe_fault = bool (*)(void* address, int fd) noexcept;

// From now on a SIGSEGV at an address that `describe` knows prints its line on stderr and kills the process at the
// faulting instruction by the default action (so the core shows it). At any other address, and for a SIGSEGV sent
// by somebody, it is as if we were not there: the handler installed before, with its flags and mask, or the default.
// Runs on the thread's alternate stack, if any (see alternate_stack): without one an overflow dies silently.
// Nests: each install wants one remove. All callers are expected to give the same function; the last one counts.
// Somebody who installs a handler later and does not call ours replaces us; that is their right.
void install_fault_handler(describe_fault describe) noexcept;

// After the last one the previous handler is back, unless somebody put theirs on top of ours: then ours stays below
// theirs and only passes on.
void remove_fault_handler() noexcept;

}  // namespace lagom::os
