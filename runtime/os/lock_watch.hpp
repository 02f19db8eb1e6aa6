// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <span>

// Checking builds (-DLAGOM_CHECKING) count which mutexes and reader-writer locks of the system a flow of control holds:
// this library defines pthread_mutex_lock and its kin, which count and call the C library's. A fiber that gives its
// worker away while it holds one may unlock it on another thread, or find its own worker blocked by it.
//
// Not with the thread sanitizer, which does the same thing with the same functions.

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LAGOM_OS_THREAD_SANITIZER
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define LAGOM_OS_THREAD_SANITIZER
#endif

namespace lagom::os {

#if defined(LAGOM_CHECKING) && !defined(LAGOM_OS_THREAD_SANITIZER)
inline constexpr bool watches_locks = true;
#else
inline constexpr bool watches_locks = false;
#endif

// What one flow holds. Written by that flow only.
struct held_locks {
  unsigned count = 0;
  const void* lock = nullptr;  // the last one taken
  const void* site = nullptr;  // the code that took it
};

// Says whose record the caller's locks belong to; nullptr: nobody's. Called inside every lock and unlock of the process;
// must not lock.
using lock_owner = held_locks* (*)() noexcept;

// Sets it. Does nothing where locks are not watched. Any thread.
void watch_locks(lock_owner owner) noexcept;

// Where in the program an address lies, as "file+0xoffset (symbol)". Writes a terminated text, cut as needed.
void describe_code(const void* address, std::span<char> text) noexcept;

}  // namespace lagom::os
