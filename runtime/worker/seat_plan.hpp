// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/seating.hpp"
#include "topology/topology.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

/// Brings the two together that do not know each other: the topology says where the workers' CPUs are, the scheduler asks for
/// seats. Made once, for as many workers as there may ever be.
class seat_plan {
 public:
  seat_plan(const topology::machine& where, const topology::worker_plan& workers);
  seat_plan(const seat_plan&) = delete;
  seat_plan& operator=(const seat_plan&) = delete;

  const scheduler::seating& map() const noexcept { return map_; }
  std::uint32_t seat_of(std::uint32_t worker) const noexcept { return seats_[worker].seat; }

 private:
  std::vector<scheduler::worker_seat> seats_;
  std::vector<std::uint32_t> worker_at_;
  std::vector<scheduler::farther_cache> farther_;
  scheduler::seating map_;
};

}  // namespace detail
}  // namespace v0
}  // namespace lagom
