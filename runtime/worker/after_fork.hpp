// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace lagom {
inline namespace v0 {
namespace detail {

/// Must be called before the first fiber: makes a child of fork() start without runtimes and on a plain thread, even if a fiber forked.
void watch_forks() noexcept;

// In the child, by those of us who have what is global. The locks' owners do not exist there, and what they guard may be half changed: it
// is left where it is.
void forget_spare_parkers() noexcept;  // park.cpp
void forget_worker() noexcept;         // loop.cpp

}  // namespace detail
}  // namespace v0
}  // namespace lagom
