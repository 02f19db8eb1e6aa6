// SPDX-License-Identifier: BSL-1.0
#include "deadline_tree.hpp"

#include <algorithm>
#include <boost/intrusive/rbtree_algorithms.hpp>
#include <cassert>
#include <cstddef>

#include "waiting.hpp"

namespace lagom::scheduler {

namespace {

// All noexcept, as Boost's algorithms are: otherwise each of those would need code to terminate in.
entity& as_entity(waiting_links* node) noexcept {
  assert(node->where == place::tree);
  return *static_cast<entity*>(node);
}

void include(entity& node, const waiting_links* child) noexcept {
  if (child != nullptr) {
    node.min_vruntime = earlier(node.min_vruntime, child->min_vruntime);
    node.min_slice = child->min_slice < node.min_slice ? child->min_slice : node.min_slice;
    node.max_slice = child->max_slice > node.max_slice ? child->max_slice : node.max_slice;
  }
}

void reset_aggregates(entity& node) noexcept {
  node.min_vruntime = node.vruntime;
  node.min_slice = node.max_slice = node.slice;
}

void recompute(entity& node) noexcept {
  reset_aggregates(node);
  include(node, node.left);
  include(node, node.right);
}

// Boost links children from the bottom up in its rotations, so recomputing a node whenever it gets a child keeps the
// aggregates right through all of them. What remains is the way up from where something was added or taken.
struct augmented_traits {
  using node = waiting_links;
  using node_ptr = waiting_links*;
  using const_node_ptr = const waiting_links*;
  using color = std::uint8_t;

  static node_ptr get_parent(const_node_ptr n) noexcept { return n->parent; }
  static node_ptr get_left(const_node_ptr n) noexcept { return n->left; }
  static node_ptr get_right(const_node_ptr n) noexcept { return n->right; }
  static color get_color(const_node_ptr n) noexcept { return n->colour; }
  static void set_parent(node_ptr n, node_ptr parent) noexcept { n->parent = parent; }
  static void set_left(node_ptr n, node_ptr left) noexcept {
    n->left = left;
    child_changed(n);
  }
  static void set_right(node_ptr n, node_ptr right) noexcept {
    n->right = right;
    child_changed(n);
  }
  static void set_color(node_ptr n, color c) noexcept { n->colour = c; }
  static color black() noexcept { return 1; }
  static color red() noexcept { return 0; }

 private:
  // The header's "children" are the ends of the order; it has no aggregates.
  static void child_changed(node_ptr n) noexcept {
    if (n->where == place::tree) {
      recompute(as_entity(n));
    }
  }
};

using algorithms = boost::intrusive::rbtree_algorithms<augmented_traits>;

// All that was in a subtree and is no longer.
struct gone {
  virtual_time min_vruntime;
  std::uint32_t min_slice;
  std::uint32_t max_slice;
};

bool is_unaffected(const entity& node, const gone& lost) {
  return !is_before(lost.min_vruntime, node.min_vruntime) && node.min_slice <= lost.min_slice &&
         node.max_slice >= lost.max_slice;
}

}  // namespace

deadline_tree::deadline_tree() noexcept {
  header_.where = place::tree_header;
  algorithms::init_header(&header_);
}

void deadline_tree::insert(entity& newcomer) {
  assert(newcomer.where == place::nowhere);
  assert(newcomer.slice > 0);
  newcomer.where = place::tree;
  newcomer.left = newcomer.right = nullptr;  // read by recompute() before Boost writes them
  reset_aggregates(newcomer);

  algorithms::insert_commit_data position{};
  position.link_left = true;
  position.node = &header_;
  for (waiting_links* at = header_.parent; at != nullptr;) {
    entity& node = as_entity(at);
    include(node, &newcomer);
    position.node = at;
    position.link_left = is_due_before(newcomer, node);
    at = position.link_left ? node.left : node.right;
  }
  algorithms::insert_unique_commit(&header_, &newcomer, position);
}

void deadline_tree::erase(entity& leaver) {
  assert(leaver.where == place::tree);
  gone lost{leaver.vruntime, leaver.slice, leaver.slice};
  // The lowest node that loses something. With two children the successor moves up into the leaver's place, so the nodes
  // in between lose the successor, and stopping for the leaver's sake alone would leave its values behind in them.
  waiting_links* lowest = leaver.parent;
  if (leaver.left != nullptr && leaver.right != nullptr) {
    waiting_links* successor = algorithms::next_node(&leaver);
    lowest = successor == leaver.right ? successor : successor->parent;
    const entity& moved = as_entity(successor);
    lost.min_vruntime = earlier(lost.min_vruntime, moved.vruntime);
    lost.min_slice = std::min(lost.min_slice, moved.slice);
    lost.max_slice = std::max(lost.max_slice, moved.slice);
  }
  algorithms::erase(&header_, &leaver);
  leaver.where = place::nowhere;

  for (waiting_links* at = lowest; at != &header_; at = at->parent) {
    recompute(as_entity(at));
    if (is_unaffected(as_entity(at), lost)) {
      break;
    }
  }
}

entity* deadline_tree::first_eligible(virtual_time limit) const {
  waiting_links* at = header_.parent;
  if (at == nullptr || is_before(limit, as_entity(at).min_vruntime)) {
    return nullptr;
  }
  for (;;) {
    entity& node = as_entity(at);
    if (node.left != nullptr && !is_before(limit, as_entity(node.left).min_vruntime)) {
      at = node.left;
    } else if (!is_before(limit, node.vruntime)) {
      return &node;
    } else {
      assert(node.right != nullptr);
      at = node.right;
    }
  }
}

entity* deadline_tree::after(const entity& here) const {
  waiting_links* next = algorithms::next_node(const_cast<entity*>(&here));
  return next == &header_ ? nullptr : &as_entity(next);
}

entity* deadline_tree::before(const entity& here) const {
  if (header_.left == &here) {
    return nullptr;
  }
  return &as_entity(algorithms::prev_node(const_cast<entity*>(&here)));
}

namespace {

// Returns the number of black nodes on every way down.
int check_subtree(const waiting_links* at, const waiting_links* parent) {
  if (at == nullptr) {
    return 1;
  }
  assert(at->parent == parent);
  assert(at->where == place::tree);
  const auto& node = *static_cast<const entity*>(at);
  const int left = check_subtree(node.left, at);
  const int right = check_subtree(node.right, at);
  assert(left == right);
  for (const waiting_links* child : {node.left, node.right}) {
    assert(child == nullptr || node.colour == augmented_traits::black() || child->colour == augmented_traits::black());
  }
  assert(node.left == nullptr || is_due_before(*static_cast<const entity*>(node.left), node));
  assert(node.right == nullptr || is_due_before(node, *static_cast<const entity*>(node.right)));
  entity expected;
  expected.vruntime = node.vruntime;
  expected.slice = node.slice;
  expected.left = node.left;
  expected.right = node.right;
  recompute(expected);
  assert(expected.min_vruntime == node.min_vruntime);
  assert(expected.min_slice == node.min_slice);
  assert(expected.max_slice == node.max_slice);
  return left + (node.colour == augmented_traits::black() ? 1 : 0);
}

}  // namespace

void deadline_tree::check_invariants() const {
  assert(header_.where == place::tree_header);
  check_subtree(header_.parent, &header_);
  const entity* previous = nullptr;
  for (const entity* e = first(); e != nullptr; e = after(*e)) {
    assert(previous == nullptr || is_due_before(*previous, *e));
    previous = e;
  }
  assert(previous == last());
}

}  // namespace lagom::scheduler
