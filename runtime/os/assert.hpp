// SPDX-License-Identifier: BSL-1.0
#pragma once

// Assertions of the runtime. They stay in release builds: a scheduler that goes on with a broken invariant loses
// fibers quietly, which is far dearer to find than one well-predicted branch.

namespace lagom::os {

// Prints what it knows about the process to fd. Runs in the failing thread, in any state; must not throw or wait.
using fatal_hook = void (*)(int fd) noexcept;

// Called once by the first failing thread, between the message and abort(). nullptr: none. Any thread.
void set_fatal_hook(fatal_hook hook) noexcept;

// Our own invariant is broken: says so on stderr, calls the hook, aborts. Async-signal-safe but for the hook.
[[noreturn]] void fatal(const char* what) noexcept;

namespace detail {

[[noreturn]] void assertion_failed(const char* condition, const char* message, const char* file, int line) noexcept;

}  // namespace detail
}  // namespace lagom::os

// Always evaluated. Variadic, so that commas in template arguments need no extra parentheses.
#define LAGOM_ASSERT(...)                            \
  (__builtin_expect(static_cast<bool>(__VA_ARGS__), 1) \
       ? static_cast<void>(0)                        \
       : ::lagom::os::detail::assertion_failed(#__VA_ARGS__, nullptr, __FILE__, __LINE__))

#define LAGOM_ASSERT_MSG(condition, message)       \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                      \
       : ::lagom::os::detail::assertion_failed(#condition, message, __FILE__, __LINE__))

// Checking builds only (-DLAGOM_CHECKING); elsewhere parsed, never evaluated.
#if defined(LAGOM_CHECKING)
#define LAGOM_DEBUG_ASSERT(...) LAGOM_ASSERT(__VA_ARGS__)
#else
#define LAGOM_DEBUG_ASSERT(...) static_cast<void>(sizeof(static_cast<bool>(__VA_ARGS__) ? 1 : 0))
#endif
