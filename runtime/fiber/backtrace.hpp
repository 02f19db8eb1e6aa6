// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <vector>

namespace lagom {
inline namespace v0 {
namespace detail {

struct fiber_block;

inline constexpr std::size_t frames_max = 64;

/// The return addresses on the stack of a fiber that nobody runs, innermost first; empty if it ran meanwhile, or cannot be
/// looked at. Follows frame pointers: frames of code compiled without them are passed over, and may end the walk. Any
/// thread; a fiber that goes on meanwhile does no harm.
std::vector<const void*> trace_suspended(const fiber_block& f);

}  // namespace detail
}  // namespace v0
}  // namespace lagom
