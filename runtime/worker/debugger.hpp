// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace lagom {
inline namespace v0 {
namespace detail {

/// Fills in `debugging`, which package/lagom-gdb.py reads. Idempotent.
void describe_to_debuggers() noexcept;

}  // namespace detail
}  // namespace v0
}  // namespace lagom
