// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <lagom/detail/export.hpp>

// The only public macros: preprocessor checks need them. There is no ABI promise before 1.0.
#define LAGOM_VERSION_MAJOR 0
#define LAGOM_VERSION_MINOR 1
#define LAGOM_VERSION_PATCH 0

namespace lagom {
inline namespace v0 {

/// Version of the library that is linked, as "major.minor.patch"; the macros are those of the headers.
LAGOM_EXPORT const char* version() noexcept;

}  // namespace v0
}  // namespace lagom
