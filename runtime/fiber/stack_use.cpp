// SPDX-License-Identifier: BSL-1.0
#include "stack_use.hpp"

#include "fiber.hpp"
#include "os/memory.hpp"
#include "stack.hpp"

// A page that was touched is in memory, one that was not is not: the kernel keeps the high-water mark for us.
namespace lagom {
inline namespace v0 {
namespace detail {

stack_use use_of(const stack& s) noexcept { return {os::resident_down_from(s.low + s.size, s.low), s.size}; }

stack_use use_of(const fiber_block& f) noexcept {
  // Through the system: the fiber's worker may write the one, and unmap the other.
  const stack* at = nullptr;
  stack copy{};
  if (!os::copy_if_mapped(&at, &f.memory, sizeof at) || !at || !os::copy_if_mapped(&copy, at, sizeof copy)) return {};
  return copy.size <= stack_size_max * stack_scale() ? use_of(copy) : stack_use{};
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
