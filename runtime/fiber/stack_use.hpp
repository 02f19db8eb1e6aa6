// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

namespace lagom {
inline namespace v0 {
namespace detail {

struct fiber_block;
struct stack;

struct stack_use {
  std::size_t used = 0, size = 0;  // bytes, in whole pages; 0: not known
};

/// REQUIRES: nobody gives the stack back meanwhile. O(its size).
stack_use use_of(const stack& s) noexcept;

/// What a fiber has used so far. It may end at any moment and its stack go back to the system: then what is told may be 0, or the
/// figure of another. Any thread.
stack_use use_of(const fiber_block& f) noexcept;

}  // namespace detail
}  // namespace v0
}  // namespace lagom
