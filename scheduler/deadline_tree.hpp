// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "entity.hpp"

namespace lagom::scheduler {

// The waiting entities in order of virtual deadline (insertion among equals), each node knowing the least vruntime and
// the shortest and longest slice below it. Search by eligibility, insertion and removal in O(log n).
class deadline_tree {
 public:
  deadline_tree() noexcept;
  deadline_tree(const deadline_tree&) = delete;
  deadline_tree& operator=(const deadline_tree&) = delete;

  [[nodiscard]] bool is_empty() const { return header_.parent == nullptr; }
  void insert(entity& newcomer);
  void erase(entity& leaver);

  // Of those with vruntime <= limit the one with the earliest virtual deadline; nullptr if there is none.
  [[nodiscard]] entity* first_eligible(virtual_time limit) const;
  [[nodiscard]] entity* first() const { return is_empty() ? nullptr : static_cast<entity*>(header_.left); }
  [[nodiscard]] entity* last() const { return is_empty() ? nullptr : static_cast<entity*>(header_.right); }
  // Neighbours in the order; nullptr at the ends.
  [[nodiscard]] entity* after(const entity& here) const;
  [[nodiscard]] entity* before(const entity& here) const;
  // Carries the aggregates of all; REQUIRES: not empty.
  [[nodiscard]] const entity& root() const { return *static_cast<const entity*>(header_.parent); }

  // Walks everything: order, balance-independent aggregates, links.
  void check_invariants() const;

 private:
  waiting_links header_;
};

}  // namespace lagom::scheduler
