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
// waiting are known without a search.
class waiting {
 public:
  waiting() noexcept { front_.left = front_.right = &front_; front_.where = place::tree_header; }
  waiting(const waiting&) = delete;
  waiting& operator=(const waiting&) = delete;

  [[nodiscard]] bool is_empty() const { return front_size_ == 0 && tree_.is_empty(); }
  // newcomer.sequence decides among equal virtual deadlines.
  void insert(entity& newcomer);
  void erase(entity& leaver);

  // The earliest virtual deadline among those with vruntime <= limit(). Limit is called at most once, and not at all
  // when is_eligible(first) holds for the very first in the order and nothing is in the tree.
  template <class IsEligible, class Limit>
  [[nodiscard]] entity* first_eligible(IsEligible&& is_eligible, Limit&& limit);

  // REQUIRES: not empty.
  [[nodiscard]] nanos shortest_slice() const;
  [[nodiscard]] nanos longest_slice() const;

  // Latest virtual deadline first; nullptr at the end. `here` must be in this structure.
  [[nodiscard]] entity* last() const;
  [[nodiscard]] entity* before(const entity& here) const;

  template <class Visit>
  void for_each(Visit&& visit) const {
    for (entity* e = last(); e != nullptr; e = before(*e)) {
      visit(*e);
    }
  }
  void check_invariants() const;

 private:
  friend class run_queue;
  // How far a list is searched, from either end. A short list is searched through: cheaper than a tree.
  static constexpr std::size_t short_list = 16;
  static constexpr std::size_t search_of_long_list = 4;

  static entity* next(const waiting_links& here) { return static_cast<entity*>(here.right); }
  [[nodiscard]] std::size_t search_limit() const { return front_size_ <= short_list ? short_list : search_of_long_list; }
  void link_after(waiting_links& before, entity& newcomer);
  void unlink(entity& leaver);
  void move_head_to_tree(std::size_t count);
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

}  // namespace lagom::scheduler
