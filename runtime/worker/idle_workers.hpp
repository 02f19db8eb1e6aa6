// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace lagom {
inline namespace v0 {
namespace detail {

// Which workers sleep, and who has been asked to get up. One bit per worker, at its seat (scheduler/seating.hpp): a word
// belongs to one last-level cache and has a cache line of its own. A bit is set by its worker and cleared either by the
// worker (it got up by itself) or by one claimer, who then owes it a notification.
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
// The other way round, claim and then push, is for who chooses the worker because it sleeps: no two choose the same one. Then
// the notification must come after the push, and whatever the worker does meanwhile, it ends its sleep.
//
// Rejected: a counter of sleepers plus a semaphore (wakes anybody, not the near one); a notification without a claim
// (a burst of pushes would write to the eventfd once each: 16 us apiece here).
template <template <class> class Atomic = std::atomic>
class idle_workers_of {
 public:
  explicit idle_workers_of(unsigned seats) : words_((seats + 63) / 64), line_(std::make_unique<line[]>(words_)) {}

  // A worker in reserve sleeps as others do, and can be claimed by name, but is not looked for. Any thread.
  void set_reserve(unsigned worker, bool is_reserve) noexcept {
    auto& word = line_[worker / 64].reserve;
    // A hint: who claims it all the same only makes it look for work in vain.
    is_reserve ? word.fetch_or(bit(worker), std::memory_order_relaxed) : word.fetch_and(~bit(worker), std::memory_order_relaxed);
  }

  void announce(unsigned worker) noexcept {
    // seq_cst: precedes the worker's last look at its sources; pairs with inbox::push.
    line_[worker / 64].bits.fetch_or(bit(worker), std::memory_order_seq_cst);
  }
  // False: somebody has claimed this sleep, a notification is on its way.
  bool retract(unsigned worker) noexcept { return clear(worker); }

  // True: the caller must notify the worker.
  bool claim(unsigned worker) noexcept {
    // seq_cst: follows the caller's publication of work; pairs with announce.
    if ((line_[worker / 64].bits.load(std::memory_order_seq_cst) & bit(worker)) == 0) return false;
    return clear(worker);
  }

  static constexpr unsigned none = ~0u;
  // Some sleeping worker of the seats [begin, end), claimed, the first from `from` on, around; or none.
  unsigned claim_in(unsigned begin, unsigned end, unsigned from) noexcept {
    for (const auto& [first, last] : {std::pair(from, end), std::pair(begin, from)}) {
      for (unsigned at = first; at < last; at = (at / 64 + 1) * 64) {
        std::uint64_t set = available(at / 64) >> (at % 64) << (at % 64);
        for (; set != 0; set &= set - 1) {
          const unsigned worker = at / 64 * 64 + static_cast<unsigned>(std::countr_zero(set));
          if (worker >= last) break;
          if (clear(worker)) return worker;
        }
      }
    }
    return none;
  }
  unsigned claim_any(unsigned from) noexcept { return claim_in(0, static_cast<unsigned>(words_) * 64, from); }

  std::uint64_t reserve(std::size_t i) const noexcept { return line_[i].reserve.load(std::memory_order_relaxed); }  // a hint
  // Who sleeps and may be asked for help, of the i-th word.
  std::uint64_t available(std::size_t i) const noexcept {
    // seq_cst: pairs with announce; the reserve is a hint.
    return line_[i].bits.load(std::memory_order_seq_cst) & ~line_[i].reserve.load(std::memory_order_relaxed);
  }

  // Is anybody idle who may be asked for help? A hint.
  bool any() const noexcept {
    for (std::size_t w = 0; w < words_; ++w) {
      const std::uint64_t set = line_[w].bits.load(std::memory_order_relaxed);                  // a hint
      if (set != 0 && (set & ~line_[w].reserve.load(std::memory_order_relaxed)) != 0) return true;  // the same
    }
    return false;
  }
  std::size_t count() const noexcept {
    std::size_t n = 0;
    // seq_cst: the monitor looks once more after it has said that it sleeps.
    for (std::size_t w = 0; w < words_; ++w) n += static_cast<std::size_t>(std::popcount(line_[w].bits.load(std::memory_order_seq_cst)));
    return n;
  }
  std::size_t words() const noexcept { return words_; }
  bool is_idle(unsigned worker) const noexcept {
    return line_[worker / 64].bits.load(std::memory_order_relaxed) & bit(worker);  // a hint
  }

 private:
  static constexpr std::uint64_t bit(unsigned worker) noexcept { return std::uint64_t{1} << (worker % 64); }
  bool clear(unsigned worker) noexcept {
    // seq_cst: the claimer's look and the worker's sleep are in one order; pairs with announce.
    return line_[worker / 64].bits.fetch_and(~bit(worker), std::memory_order_seq_cst) & bit(worker);
  }

  struct alignas(64) line {
    Atomic<std::uint64_t> bits{0}, reserve{0};
  };

  std::size_t words_;
  std::unique_ptr<line[]> line_;
};

using idle_workers = idle_workers_of<>;

}  // namespace detail
}  // namespace v0
}  // namespace lagom
