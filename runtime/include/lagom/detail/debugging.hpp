// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include <lagom/detail/export.hpp>

namespace lagom {
inline namespace v0 {
namespace detail {

/// How to find the fibers of a process from outside, in a core too, without debug information: addresses, and offsets in
/// bytes. Not for programs. A reader checks `magic` and `version`; the version changes when a field changes its meaning, and
/// fields are only added at the end. All zero until the first runtime is made.
struct debugger_table {
  char magic[8];
  std::uint32_t version, fields;                      // fields: how many numbers follow `slabs`, `states`, `reasons`
  const void* slabs;                                  // of a pointer to the first slab, or null
  const char* const* states;                          // by number
  const char* const* reasons;                         // by number
  std::uint32_t state_count, reason_count;
  std::uint32_t slab_blocks, slab_blocks_at, slab_next;
  std::uint32_t block_size, block_id, block_state, block_reason, block_since, block_core, block_worker;
  std::uint32_t block_stack_pointer, block_stack_top, block_attributes, attributes_name;
  std::uint32_t worker_index, stack_low;
  std::uint32_t saved_size, saved_pc, saved_fp;       // what a suspended fiber has at its stack pointer
};
extern LAGOM_EXPORT debugger_table debugging;

}  // namespace detail
}  // namespace v0
}  // namespace lagom
