// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "worker.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

/// Whose record a mutex of the system that is locked now belongs to: the running fiber's. For os::watch_locks().
os::held_locks* locks_of_caller() noexcept;

/// Checking builds: tells on stderr, once for each place that locks, that a fiber gives its worker away while it holds a
/// lock of the system and may go on on another thread. Calls nobody's log function: the fiber is on its way out.
void report_held_locks(const fiber_block& f, departure how) noexcept;

}  // namespace detail
}  // namespace v0
}  // namespace lagom
