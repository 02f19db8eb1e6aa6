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
  const stack* at = f.memory.load(std::memory_order_relaxed);  // it may be unmapped meanwhile: read through the system
  stack copy{};
  if (!at || !os::copy_if_mapped(&copy, at, sizeof copy)) return {};
  return copy.size <= stack_size_max * stack_scale() ? use_of(copy) : stack_use{};
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
