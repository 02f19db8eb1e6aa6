// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace lagom::tests {

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LAGOM_TESTS_THREAD_SANITIZER
#endif
#if __has_feature(address_sanitizer)
#define LAGOM_TESTS_ADDRESS_SANITIZER
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define LAGOM_TESTS_THREAD_SANITIZER
#endif
#if defined(__SANITIZE_ADDRESS__)
#define LAGOM_TESTS_ADDRESS_SANITIZER
#endif

#if defined(LAGOM_TESTS_THREAD_SANITIZER)
inline constexpr bool under_thread_sanitizer = true;
#else
inline constexpr bool under_thread_sanitizer = false;
#endif

#if defined(LAGOM_TESTS_ADDRESS_SANITIZER)
inline constexpr bool under_sanitizer = true;
#else
inline constexpr bool under_sanitizer = under_thread_sanitizer;
#endif

}  // namespace lagom::tests
