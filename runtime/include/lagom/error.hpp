// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <system_error>
#include <type_traits>

#include <lagom/detail/export.hpp>

namespace lagom {
inline namespace v0 {

/// What can go wrong beyond the operating system's own errors. Carried by std::system_error or std::error_code.
enum class errc {
  stopped = 1,      ///< a stop was requested for the fiber or its runtime
  closed,           ///< the channel or descriptor was closed
  no_runtime,       ///< needs a fiber or a running runtime; the caller is a plain thread
  would_deadlock,   ///< the call would wait for itself, e.g. runtime::run from one of its own fibers
  not_supported,    ///< not available here
  not_joinable,     ///< join or detach of an empty fiber
  forked,           ///< the runtime or fiber is that of the process which forked this one
};

/// Category "lagom". Thread-safe, valid for the life of the process.
LAGOM_EXPORT const std::error_category& error_category() noexcept;

inline std::error_code make_error_code(errc e) noexcept { return {static_cast<int>(e), error_category()}; }

}  // namespace v0
}  // namespace lagom

template <>
struct std::is_error_code_enum<lagom::errc> : std::true_type {};
