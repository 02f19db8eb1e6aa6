// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>

#include <boost/intrusive/set.hpp>

#include <lagom/detail/spin_lock.hpp>
#include <lagom/detail/wait_queue.hpp>

#include "fiber/fiber.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

/// The armed timers of one worker, by expiry; equal expiries in order of arming. Intrusive: arming cannot fail.
/// Only fibers of the worker arm; anybody may cancel or fire, so that a worker held by a rude fiber delays no sleeper.
class timer_queue {
 public:
  void arm(timer_node& t) noexcept;          // O(log n)
  void cancel(timer_node& t) noexcept;       // O(log n); nothing if it has fired
  /// Uses the tickets of all timers with expiry <= now, in order. Returns how many.
  unsigned fire(std::int64_t now) noexcept;
  /// Earliest expiry, or never. A hint that is exact for the owner.
  std::int64_t next_expiry() const noexcept { return next_.load(std::memory_order_relaxed); }  // a hint

 private:
  void publish() noexcept;

  struct by_expiry {
    bool operator()(const timer_node& a, const timer_node& b) const noexcept { return a.expiry < b.expiry; }
  };
  using tree = boost::intrusive::multiset<timer_node, boost::intrusive::compare<by_expiry>,
                                          boost::intrusive::constant_time_size<false>>;
  spin_lock lock_;
  tree armed_;
  std::atomic<std::int64_t> next_{never};
};

}  // namespace detail
}  // namespace v0
}  // namespace lagom
