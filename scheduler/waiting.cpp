// SPDX-License-Identifier: BSL-1.0
#include "waiting.hpp"

#include <cassert>

namespace lagom::scheduler {

// Somewhere before the tail of the front if it is near, else in the tree.
void waiting::insert_inside(entity& newcomer) {
  if (newcomer.slice != front_slice_) {
    tree_.insert(newcomer);
    return;
  }
  const bool is_long = front_size_ > short_list;
  waiting_links* at = front_.left;
  for (std::size_t passed = 0; at != &front_ && is_due_before(newcomer, *static_cast<entity*>(at)); ++passed) {
    auto& ahead = *static_cast<entity*>(at);
    at = at->left;
    if (!is_long) {
      continue;
    }
    if (passed == search_of_long_list) {  // deep inside
      tree_.insert(newcomer);
      return;
    }
    move_to_tree(ahead);
  }
  link_after(*at, newcomer);
}

void waiting::move_to_tree(entity& here) {
  unlink(here);
  tree_.insert(here);
}

entity* waiting::first_eligible_in_front(virtual_time limit) {
  std::size_t passed = 0;
  for (waiting_links* at = front_.right; at != &front_;) {
    auto& e = *static_cast<entity*>(at);
    if (!is_before(limit, e.vruntime)) {
      return &e;
    }
    at = at->right;
    // In a long list those at its head would be passed again and again; the tree skips them.
    if (++passed >= search_of_long_list && front_size_ > short_list) {
      for (; passed > 0; --passed) {
        move_to_tree(head());
      }
    }
  }
  return nullptr;
}

entity* waiting::first_eligible(virtual_time limit) {
  entity* in_front = first_eligible_in_front(limit);
  entity* in_tree = tree_.first_eligible(limit);
  if (in_front == nullptr || in_tree == nullptr) {
    return in_front == nullptr ? in_tree : in_front;
  }
  return is_due_before(*in_front, *in_tree) ? in_front : in_tree;
}

nanos waiting::shortest_slice() const {
  assert(!is_empty());
  if (tree_.is_empty()) {
    return front_slice_;
  }
  const nanos in_tree = tree_.root().min_slice;
  return front_size_ == 0 ? in_tree : std::min(front_slice_, in_tree);
}

nanos waiting::longest_slice() const {
  assert(!is_empty());
  if (tree_.is_empty()) {
    return front_slice_;
  }
  const nanos in_tree = tree_.root().max_slice;
  return front_size_ == 0 ? in_tree : std::max(front_slice_, in_tree);
}

entity* waiting::from_the_last::next() {
  auto* front = in_front_ == &all_.front_ ? nullptr : static_cast<entity*>(const_cast<waiting_links*>(in_front_));
  if (front == nullptr && in_tree_ == nullptr) {
    return nullptr;
  }
  if (front == nullptr || (in_tree_ != nullptr && is_due_before(*front, *in_tree_))) {
    entity* found = in_tree_;
    in_tree_ = all_.tree_.before(*found);
    return found;
  }
  in_front_ = front->left;
  return front;
}

void waiting::check_invariants() const {
  tree_.check_invariants();
  std::size_t count = 0;
  const entity* previous = nullptr;
  for (const waiting_links* at = front_.right; at != &front_; at = at->right) {
    const auto& e = *static_cast<const entity*>(at);
    assert(e.where == place::front);
    assert(e.slice == front_slice_);
    assert(e.right->left == at);
    assert(previous == nullptr || is_due_before(*previous, e));
    previous = &e;
    ++count;
  }
  assert(count == front_size_);
}

}  // namespace lagom::scheduler
