// SPDX-License-Identifier: BSL-1.0
#include "debugger.hpp"

#include <cstddef>
#include <cstring>

#include <lagom/detail/debugging.hpp>

#include "fiber/context.hpp"
#include "fiber/fiber.hpp"
#include "worker.hpp"

// The blocks are no standard-layout classes; the compilers we know lay them out all the same.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

namespace lagom {
inline namespace v0 {
namespace detail {

__attribute__((used)) debugger_table debugging;

namespace {

constexpr std::size_t state_count = static_cast<std::size_t>(block_state::exited) + 1;
constexpr std::size_t reason_count = static_cast<std::size_t>(wait_reason::count_);
const char* state_names[state_count];
const char* reason_names[reason_count];

debugger_table describe() noexcept {
  debugger_table t{};
  for (std::size_t i = 0; i < state_count; ++i) state_names[i] = to_string(visible(static_cast<block_state>(i)));
  for (std::size_t i = 0; i < reason_count; ++i) reason_names[i] = to_string(static_cast<wait_reason>(i));
  state_names[static_cast<std::size_t>(block_state::free)] = "";
  const auto number = [](std::size_t n) { return static_cast<std::uint32_t>(n); };
  const slab_layout slabs = layout_of_slabs();
  const suspended_layout suspended = layout_of_suspended();
  t.version = 1;
  t.fields = number((sizeof t - offsetof(debugger_table, state_count)) / sizeof(std::uint32_t));
  t.slabs = slabs.head;
  t.states = state_names;
  t.reasons = reason_names;
  t.state_count = number(state_count);
  t.reason_count = number(reason_count);
  t.slab_blocks = number(slabs.blocks);
  t.slab_blocks_at = number(slabs.blocks_at);
  t.slab_next = number(slabs.next_at);
  t.block_size = number(sizeof(fiber_block));
  t.block_id = number(offsetof(fiber_block, serial));
  t.block_state = number(offsetof(fiber_block, state));
  t.block_reason = number(offsetof(fiber_block, reason));
  t.block_since = number(offsetof(fiber_block, state_since));
  t.block_core = number(offsetof(fiber_block, core));
  t.block_worker = number(offsetof(fiber_block, home));
  t.block_stack_pointer = number(offsetof(fiber_block, machine) + offsetof(machine_context, stack_pointer));
  t.block_stack_top = number(offsetof(fiber_block, memory));
  t.block_attributes = number(offsetof(fiber_block, attrs));
  t.attributes_name = number(offsetof(attributes, name));
  t.worker_index = number(offsetof(worker, index));
  t.stack_low = number(offsetof(stack, low));
  t.saved_size = suspended.size;
  t.saved_pc = suspended.pc;
  t.saved_fp = suspended.fp;
  std::memcpy(t.magic, "lagom", 6);
  return t;
}

}  // namespace

void describe_to_debuggers() noexcept {
  static const bool once = [] {
    debugging = describe();
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
