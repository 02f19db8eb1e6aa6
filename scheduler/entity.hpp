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

// What a search among the waiting entities reads of each: one cache line. The links are those of the tree or, left being
// the previous and right the next, of the front list.
struct alignas(64) waiting_links {
  waiting_links* left = nullptr;
  waiting_links* right = nullptr;
  waiting_links* parent = nullptr;
  virtual_time vruntime{};
  virtual_time virtual_deadline{};
  virtual_time min_vruntime{};  // least of the subtree
  std::uint32_t min_slice = 0;  // shortest of the subtree, nanoseconds
  std::uint32_t max_slice = 0;  // longest of the subtree
  std::uint8_t colour = 0;
  place where = place::nowhere;
  policy kind = policy::normal;   // preset
  bool has_custom_slice = false;  // preset; a mode of its own: a custom slice equal to the default stays custom
  bool on_rq = false;             // counted in a run queue: waiting, current, or asleep with a debt (delayed)
  bool delayed = false;           // parked, but still queued until its debt is paid
  bool deadline_is_relative = false;  // virtual_deadline is a distance from vruntime (in migration)
  bool is_window_open = false;        // `window` means something (original run to parity only)
};

// What the policy knows of a fiber. Embed it in (or derive from it) whatever is scheduled; it must not move while it is
// queued. Everybody may read, only run_queue writes; who wants to set weight, policy or slice before the first
// enqueue() uses run_queue::reweight, set_policy and set_slice or, without a run queue at hand, the fields marked
// "preset".
struct entity : waiting_links {
  std::uint64_t sequence = 0;  // order of insertion: the tie-break of equal virtual deadlines
  virtual_span request{};      // `slice` on the virtual line
  virtual_time window{};       // protected from displacement before this point (or: the virtual deadline at the pick)
  weight share = nice_0_weight;  // preset
  std::uint32_t slice = 0;       // nanoseconds; preset if custom; 0 only before the first enqueue() in default mode
  nanos sum_exec = 0;            // service: real nanoseconds run
  virtual_span vlag{};           // V - vruntime when it left (or was delayed); positive: is owed service

  const run_queue* owes_to = nullptr;  // where it parked in debt and vruntime still means something
};
static_assert(sizeof(waiting_links) == 64);
static_assert(sizeof(entity) == 128);

// The longest slice there may be: 32 bits hold it in nanoseconds.
inline constexpr nanos slice_limit = 4'000'000'000;

}  // namespace lagom::scheduler
