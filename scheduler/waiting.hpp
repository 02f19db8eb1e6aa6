// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "deadline_tree.hpp"
#include "entity.hpp"

namespace lagom::scheduler {

// True if a is to be picked before b, both being eligible.
[[nodiscard]] inline bool is_due_before(const entity& a, const entity& b) {
  const virtual_span difference = a.virtual_deadline - b.virtual_deadline;
  return difference.ticks != 0 ? difference.ticks < 0 : a.sequence < b.sequence;
}

// The waiting entities of a run queue, ordered by virtual deadline, FIFO among equals.
//
// Two parts. The front is a sorted list into which one may only enter near an end: round robin among equals appends to
// its tail and takes from its head, and never touches a tree; so does everything in a queue of a few entities. Who
// belongs deeper inside the list, who is found ineligible near the head of a long list, and who has another slice than
// the front's goes to the tree. So all entities of the front have one slice, and the shortest and longest slice of all
// waiting are known without a search. A few who are far ahead of the others (a stint that the operating system made long
// is enough) would stand at the tail for ever and send everybody else to the tree: so it is they who go there.
class waiting {
 public:
  waiting() noexcept { front_.left = front_.right = &front_; front_.where = place::tree_header; }
  waiting(const waiting&) = delete;
  waiting& operator=(const waiting&) = delete;

  [[nodiscard]] bool is_empty() const { return front_size_ == 0 && tree_.is_empty(); }
  // newcomer.sequence decides among equal virtual deadlines.
  inline void insert(entity& newcomer);
  inline void erase(entity& leaver);

  // The earliest virtual deadline of all. REQUIRES: not empty.
  [[nodiscard]] inline entity& earliest() const;
  // The earliest virtual deadline among those with vruntime <= limit, which is V; nullptr if there is none. May move
  // some from the front to the tree. V costs a division and this a search, so the caller tries earliest() before.
  [[nodiscard]] entity* first_eligible(virtual_time limit);
  // The earliest virtual deadline of the front. REQUIRES: the front is not empty.
  [[nodiscard]] entity& head() const { return *static_cast<entity*>(front_.right); }
  // REQUIRES: exactly one waits.
  [[nodiscard]] entity& only() const { return front_size_ != 0 ? head() : *tree_.first(); }

  // REQUIRES: not empty.
  [[nodiscard]] nanos shortest_slice() const;
  [[nodiscard]] nanos longest_slice() const;
  [[nodiscard]] bool has_no_slice_below(nanos slice) const {
    return (front_size_ == 0 || front_slice_ >= slice) && (tree_.is_empty() || tree_.root().min_slice >= slice);
  }

  // Walks from the latest virtual deadline to the earliest. Not valid across changes.
  class from_the_last {
   public:
    explicit from_the_last(const waiting& all)
        : all_(all), in_front_(all.front_.left), in_tree_(all.tree_.last()) {}
    [[nodiscard]] entity* next();  // nullptr after the earliest

   private:
    const waiting& all_;
    const waiting_links* in_front_;  // &front_ when it is through
    entity* in_tree_;
  };

  // Everybody, in no particular order.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const waiting_links* at = front_.right; at != &front_; at = at->right) {
      visit(*static_cast<const entity*>(at));
    }
    for (const entity* e = tree_.first(); e != nullptr; e = tree_.after(*e)) {
      visit(*e);
    }
  }
  void check_invariants() const;

 private:
  // How far a list is searched, from either end. A short list is searched through: cheaper than a tree.
  static constexpr std::size_t short_list = 16;
  static constexpr std::size_t search_of_long_list = 4;

  inline void link_after(waiting_links& before, entity& newcomer);
  inline void unlink(entity& leaver);
  void insert_inside(entity& newcomer);
  void move_to_tree(entity& here);
  entity* first_eligible_in_front(virtual_time limit);

  waiting_links front_;  // head of the circular list
  std::size_t front_size_ = 0;
  nanos front_slice_ = 0;  // of everybody in the front
  deadline_tree tree_;
};

inline void waiting::link_after(waiting_links& before, entity& newcomer) {
  newcomer.left = &before;
  newcomer.right = before.right;
  before.right->left = &newcomer;
  before.right = &newcomer;
  newcomer.where = place::front;
  ++front_size_;
}

inline void waiting::unlink(entity& leaver) {
  leaver.left->right = leaver.right;
  leaver.right->left = leaver.left;
  leaver.where = place::nowhere;
  --front_size_;
}

inline entity& waiting::earliest() const {
  if (tree_.is_empty()) [[likely]] {
    return head();
  }
  entity& in_tree = *tree_.first();
  return front_size_ != 0 && is_due_before(head(), in_tree) ? head() : in_tree;
}

inline void waiting::insert(entity& newcomer) {
  assert(newcomer.where == place::nowhere);
  if (front_size_ == 0) {
    front_slice_ = newcomer.slice;
    link_after(front_, newcomer);
  } else if (newcomer.slice == front_slice_ && !is_due_before(newcomer, *static_cast<entity*>(front_.left))) {
    link_after(*front_.left, newcomer);
  } else {
    insert_inside(newcomer);
  }
}

inline void waiting::erase(entity& leaver) {
  if (leaver.where == place::front) [[likely]] {
    unlink(leaver);
  } else {
    tree_.erase(leaver);
  }
}

}  // namespace lagom::scheduler
