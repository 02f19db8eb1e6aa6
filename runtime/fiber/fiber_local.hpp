// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <vector>

#include <lagom/fiber_local.hpp>

namespace lagom {
inline namespace v0 {
namespace detail {

/// The values of one fiber or thread. Only that one uses it.
///
/// Invariant: every node is in the list, in the order of making; by_index[k.index] is the newest node with that index or
/// null. A node whose fiber_local has ended is still in the list, and by_index may still name it: its id fits nobody.
struct local_values {
  std::vector<local_node*> by_index;
  local_node* last = nullptr;

  local_node* find(local_key key) const noexcept {
    if (key.index >= by_index.size()) return nullptr;
    local_node* const node = by_index[key.index];
    return node && node->key.id == key.id ? node : nullptr;
  }
  void add(local_key key, local_node& node);  // throws std::bad_alloc, and changes nothing then
  void drop(local_node& node) noexcept;
  /// The newest first; those that destructors make meanwhile too.
  void drop_all() noexcept;
};

}  // namespace detail
}  // namespace v0
}  // namespace lagom
