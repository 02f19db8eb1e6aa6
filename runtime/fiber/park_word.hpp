// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>

#include <lagom/detail/wait_queue.hpp>

#include "os/assert.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

/// May a request to stop the fiber end this wait early?
enum class stoppable : std::uint8_t { no, yes };

/// The word of a parker: epoch, may a stop end this wait, cause of `used`, and one of four states.
///
///   quiet ──arm()──► armed ──settle(), after the switch has left the stack──► parked
///     ▲                │ use()                                                  │ use()
///     └── end() ───────┴───────────────────► used ◄─────────────────────────────┘
///
/// Invariants, checked by tests/model/:
///   - For each epoch exactly one CAS reaches `used`, whether it is a waker's, a timer's or a stop's: the others are stale.
///   - If it came from `armed`, the stack is not left yet and its own worker goes on with it; if it came from `parked`,
///     the one who won makes it runnable. So it is made runnable exactly once.
///   - The epoch only grows, over the lives of all fibers that use the word: a ticket of an earlier wait never fits.
///   - A stop is not lost: settle() comes before the look at the stop flag, the flag is set before parked_until_stop() is
///     asked, all four sequentially consistent; one of the two sees the other. If both do, the CAS decides.
///
/// Only the owner (the fiber's worker, or the thread itself) calls arm(), settle(), end_if_used(), end() and epoch().
template <template <class> class Atomic = std::atomic>
class park_word_of {
 public:
  enum class found : std::uint8_t { stale, armed, parked };

  static constexpr std::uint64_t no_epoch = 0;  // arm() begins with 1

  /// Begins a wait; returns its epoch.
  std::uint64_t arm() noexcept {
    const std::uint64_t word = word_.load(std::memory_order_relaxed);  // nobody else may change a quiet word
    LAGOM_ASSERT((word & state_mask) == quiet);
    const std::uint64_t epoch = (word >> epoch_shift) + 1;
    // relaxed: published by whatever lock or exchange makes the ticket known.
    word_.store((epoch << epoch_shift) | armed, std::memory_order_relaxed);
    return epoch;
  }

  /// Of the wait in progress.
  std::uint64_t epoch() const noexcept { return word_.load(std::memory_order_relaxed) >> epoch_shift; }  // the owner's own

  /// Armed to parked. From then on it may run elsewhere, end, and be reused: only the ticket may be held.
  /// False: used meanwhile, and nobody else will make it runnable.
  bool settle(std::uint64_t epoch, stoppable stop) noexcept {
    std::uint64_t expected = (epoch << epoch_shift) | armed;
    const std::uint64_t asleep = (epoch << epoch_shift) | parked | (stop == stoppable::yes ? stoppable_bit : 0);
    // seq_cst: publishes the saved context to the one who uses the ticket, and precedes the look at the stop flag; pairs
    // with use() and parked_until_stop().
    return word_.compare_exchange_strong(expected, asleep, std::memory_order_seq_cst, std::memory_order_relaxed);
  }

  /// Uses a ticket. parked: the caller owns it now and makes it runnable. Any thread.
  found use(std::uint64_t epoch, wake cause) noexcept {
    std::uint64_t word = word_.load(std::memory_order_relaxed);  // confirmed by the exchange
    for (;;) {
      const std::uint64_t state = word & state_mask;
      if (word >> epoch_shift != epoch || state == used || state == quiet) return found::stale;
      const std::uint64_t next = (epoch << epoch_shift) | (static_cast<std::uint64_t>(cause) << cause_shift) | used;
      // seq_cst: publishes what the waker wrote and takes over a parked fiber's context; pairs with settle() and end().
      if (!word_.compare_exchange_weak(word, next, std::memory_order_seq_cst, std::memory_order_relaxed)) continue;
      return state == parked ? found::parked : found::armed;
    }
  }

  /// The epoch of the wait that a stop may end now; no_epoch if there is none. Asked after the stop flag is set. Any thread.
  std::uint64_t parked_until_stop() const noexcept {
    const std::uint64_t word = word_.load(std::memory_order_seq_cst);  // after the flag; pairs with settle()
    return (word & state_mask) == parked && (word & stoppable_bit) ? word >> epoch_shift : no_epoch;
  }

  /// Parked: whoever uses its ticket does so after what the caller has done before, in the one order. Any thread.
  bool is_parked() const noexcept { return (word_.load(std::memory_order_seq_cst) & state_mask) == parked; }  // pairs with use()

  /// Used to quiet: the end of the wait. False if it is not used yet.
  bool end_if_used(wake& cause) noexcept {
    const std::uint64_t word = word_.load(std::memory_order_acquire);  // pairs with use()
    if ((word & state_mask) != used) return false;
    cause = static_cast<wake>((word >> cause_shift) & 3);
    word_.store((word >> epoch_shift) << epoch_shift, std::memory_order_relaxed);  // ours again until the next arm()
    return true;
  }

  /// Used or armed to quiet. False: it was not used, and cannot be any more.
  bool end(wake& cause) noexcept {
    std::uint64_t word = word_.load(std::memory_order_relaxed);  // confirmed by the exchange
    while ((word & state_mask) == armed) {
      const std::uint64_t next = (word >> epoch_shift) << epoch_shift;
      // relaxed: takes nothing over if it succeeds; if it fails, end_if_used() looks again.
      if (word_.compare_exchange_weak(word, next, std::memory_order_relaxed)) return false;
    }
    const bool was_used = end_if_used(cause);
    LAGOM_ASSERT(was_used);
    return true;
  }

 private:
  static constexpr std::uint64_t quiet = 0, armed = 1, parked = 2, used = 3, state_mask = 3;
  static constexpr unsigned cause_shift = 2, epoch_shift = 5;
  static constexpr std::uint64_t stoppable_bit = 1u << 4;

  Atomic<std::uint64_t> word_{0};
};

using park_word = park_word_of<>;

}  // namespace detail
}  // namespace v0
}  // namespace lagom
