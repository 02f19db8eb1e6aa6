// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include "virtual_time.hpp"
#include "weight.hpp"

namespace lagom::scheduler {

class run_queue;

enum class policy : std::uint8_t { normal, batch, idle };

// Where an entity's links are in use. The current entity of a run queue is queued, but nowhere in it.
enum class place : std::uint8_t { nowhere, front, tree, tree_header };

// Links of the waiting entities: of the tree, or (left = previous, right = next) of the front list.
struct waiting_links {
  waiting_links* parent = nullptr;
  waiting_links* left = nullptr;
  waiting_links* right = nullptr;
  std::uint8_t colour = 0;
  place where = place::nowhere;
};

// What the policy knows of a fiber. Embed it in (or derive from it) whatever is scheduled; it must not move while it is
// queued. Everybody may read, only run_queue writes; who wants to set weight, policy or slice before the first
// enqueue() uses run_queue::reweight, set_policy and set_slice or, without a run queue at hand, the fields marked
// "preset". The two cache lines are hot and cold halves of a pick.
struct entity : waiting_links {
  policy kind = policy::normal;   // preset
  bool has_custom_slice = false;  // preset; a mode of its own: a custom slice equal to the default stays custom
  bool on_rq = false;             // counted in a run queue: waiting, current, or asleep with a debt (delayed)
  bool delayed = false;           // parked, but still queued until its debt is paid
  bool deadline_is_relative = false;  // virtual_deadline is a distance from vruntime (in migration)
  bool is_window_open = false;        // `window` means something (original run to parity only)
  virtual_time vruntime{};
  virtual_time virtual_deadline{};
  std::uint64_t sequence = 0;  // order of insertion: the tie-break of equal virtual deadlines
  weight share = nice_0_weight;  // preset

  nanos slice = 0;             // preset if custom; 0 only before the first enqueue() in default mode
  virtual_span request{};      // `slice` on the virtual line
  virtual_time window{};       // protected from displacement before this point (or: the virtual deadline at the pick)
  nanos sum_exec = 0;          // service: real nanoseconds run
  virtual_span vlag{};         // V - vruntime when it left (or was delayed); positive: is owed service
  virtual_time min_vruntime{};  // least of the subtree
  nanos min_slice = 0;          // shortest of the subtree
  nanos max_slice = 0;          // longest of the subtree

  const run_queue* left_queue = nullptr;  // where it parked last …
  virtual_time left_at{};                 // … and that queue's virtual time then; for paying off debt asleep
};

}  // namespace lagom::scheduler
