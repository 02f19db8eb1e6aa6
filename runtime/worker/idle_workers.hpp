// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace lagom {
inline namespace v0 {
namespace detail {

// Which workers sleep, and who has been asked to get up. One bit per worker; a bit is set by its worker and cleared
// either by the worker (it got up by itself) or by one claimer, who then owes it a notification.
//
//   worker                                        whoever has made work
//   announce(i)            set bit, RMW           publish the work, RMW (inbox push)
//   look at all sources again                     claim(i) or claim_any()     clear bit, RMW
//   nothing? sleep in the poller                  cleared it? notify worker i
//   retract(i)             clear bit
//
// Invariant: work that was published before the bit was looked at is seen by the worker's last look, or the bit is seen
// by the publisher. Both sides are sequentially consistent read-modify-writes, so there is no third case. Each sleep is
// ended by at most one notification. The last look takes in everything that work may have been moved to meanwhile: the
// inbox first, then, under its lock, the run queue into which a thief empties the inbox. Checked by Relacy, tests/model/.
//
// Rejected: a counter of sleepers plus a semaphore (wakes anybody, not the near one); a notification without a claim
// (a burst of pushes would write to the eventfd once each: 16 us apiece here).
template <template <class> class Atomic = std::atomic>
class idle_workers_of {
 public:
  explicit idle_workers_of(unsigned workers)
      : words_((workers + 63) / 64), bits_(std::make_unique<Atomic<std::uint64_t>[]>(words_)),
        reserve_(std::make_unique<Atomic<std::uint64_t>[]>(words_)) {}

  // A worker in reserve sleeps as others do, and can be claimed by name, but is not looked for. Any thread.
  void set_reserve(unsigned worker, bool is_reserve) noexcept {
    auto& word = reserve_[worker / 64];
    // A hint: who claims it all the same only makes it look for work in vain.
    is_reserve ? word.fetch_or(bit(worker), std::memory_order_relaxed) : word.fetch_and(~bit(worker), std::memory_order_relaxed);
  }

  void announce(unsigned worker) noexcept {
    // seq_cst: precedes the worker's last look at its sources; pairs with inbox::push.
    bits_[worker / 64].fetch_or(bit(worker), std::memory_order_seq_cst);
  }
  // False: somebody has claimed this sleep, a notification is on its way.
  bool retract(unsigned worker) noexcept { return clear(worker); }

  // True: the caller must notify the worker.
  bool claim(unsigned worker) noexcept {
    // seq_cst: follows the caller's publication of work; pairs with announce.
    if ((bits_[worker / 64].load(std::memory_order_seq_cst) & bit(worker)) == 0) return false;
    return clear(worker);
  }

  static constexpr unsigned none = ~0u;
  // Some sleeping worker, claimed, the first at or after `from`; or none.
  unsigned claim_any(unsigned from) noexcept {
    for (std::size_t i = 0; i <= words_; ++i) {
      const std::size_t w = (from / 64 + i) % words_;
      // seq_cst: pairs with announce; the reserve is a hint.
      std::uint64_t set = bits_[w].load(std::memory_order_seq_cst) & ~reserve_[w].load(std::memory_order_relaxed);
      if (i == 0) set &= ~std::uint64_t{0} << (from % 64);
      while (set) {
        const unsigned worker = static_cast<unsigned>(w * 64) + static_cast<unsigned>(std::countr_zero(set));
        if (clear(worker)) return worker;
        set &= set - 1;
      }
    }
    return none;
  }

  // Is anybody idle who may be asked for help? A hint.
  bool any() const noexcept {
    for (std::size_t w = 0; w < words_; ++w) {
      const std::uint64_t set = bits_[w].load(std::memory_order_relaxed);                  // a hint
      if (set != 0 && (set & ~reserve_[w].load(std::memory_order_relaxed)) != 0) return true;  // the same
    }
    return false;
  }
  std::size_t count() const noexcept {
    std::size_t n = 0;
    // seq_cst: the monitor looks once more after it has said that it sleeps.
    for (std::size_t w = 0; w < words_; ++w) n += static_cast<std::size_t>(std::popcount(bits_[w].load(std::memory_order_seq_cst)));
    return n;
  }
  bool is_idle(unsigned worker) const noexcept {
    return bits_[worker / 64].load(std::memory_order_relaxed) & bit(worker);  // a hint
  }

 private:
  static constexpr std::uint64_t bit(unsigned worker) noexcept { return std::uint64_t{1} << (worker % 64); }
  bool clear(unsigned worker) noexcept {
    // seq_cst: the claimer's look and the worker's sleep are in one order; pairs with announce.
    return bits_[worker / 64].fetch_and(~bit(worker), std::memory_order_seq_cst) & bit(worker);
  }

  std::size_t words_;
  std::unique_ptr<Atomic<std::uint64_t>[]> bits_, reserve_;
};

using idle_workers = idle_workers_of<>;

}  // namespace detail
}  // namespace v0
}  // namespace lagom
