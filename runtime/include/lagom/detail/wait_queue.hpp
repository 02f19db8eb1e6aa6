// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>

#include <lagom/detail/export.hpp>
#include <lagom/detail/spin_lock.hpp>

namespace lagom {
inline namespace v0 {
namespace detail {

struct parker;  // what can be parked: a fiber or a plain thread. Type-stable memory, see runtime/fiber/park.hpp

/// One wait of one parker. Using it twice, or after the wait has ended, does nothing.
struct ticket {
  parker* who = nullptr;
  std::uint64_t epoch = 0;
};

/// How a wait ended.
enum class wake : std::uint8_t { notified, expired, stopped };

/// Points in time are nanoseconds of CLOCK_MONOTONIC, which is std::chrono::steady_clock here.
inline constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

LAGOM_EXPORT std::int64_t monotonic_now() noexcept;

/// A node on the waiter's stack, linked while the waiter may be notified.
///
/// Invariant: `linked` changes only under the primitive's lock, and whoever unlinks it has decided how the wait ends: a waker
/// (then the waiter was notified, even if its timer woke it first) or the waiter itself (then it expired or was stopped).
/// So a wake-up can never be lost between a waker and a timer, and no token has to be passed on.
struct waiter {
  waiter* next = nullptr;
  waiter* prev = nullptr;
  ticket who{};
  void* slot = nullptr;            // the primitive's: where a value is handed over
  std::atomic<std::uint32_t>* claim = nullptr;  // select: the first waker to claim it wins; null when alone
  std::uint32_t index = 0;         // select: which case this is, from 1
  bool linked = false;
  bool flag = false;               // the primitive's own mark (mutex: was passed over; channel: closed)
};

/// FIFO of waiters. The primitive's lock guards it.
class wait_queue {
 public:
  constexpr wait_queue() noexcept = default;
  bool empty() const noexcept { return head_ == nullptr; }
  waiter* front() const noexcept { return head_; }

  void push_back(waiter& w) noexcept {
    w.next = nullptr;
    w.prev = tail_;
    w.linked = true;
    (tail_ ? tail_->next : head_) = &w;
    tail_ = &w;
  }
  void push_front(waiter& w) noexcept {
    w.prev = nullptr;
    w.next = head_;
    w.linked = true;
    (head_ ? head_->prev : tail_) = &w;
    head_ = &w;
  }
  void unlink(waiter& w) noexcept {
    (w.prev ? w.prev->next : head_) = w.next;
    (w.next ? w.next->prev : tail_) = w.prev;
    w.linked = false;
  }
  /// First waiter that this waker has won, unlinked; nullptr when there is none. Members of a select that another
  /// primitive has won already are dropped on the way.
  waiter* pop() noexcept {
    while (head_) {
      waiter& w = *head_;
      unlink(w);
      if (!w.claim) return &w;
      std::uint32_t open = 0;
      // acq_rel: the select reads the winner's slot after it sees the claim.
      if (w.claim->compare_exchange_strong(open, w.index, std::memory_order_acq_rel)) return &w;
    }
    return nullptr;
  }

 private:
  waiter* head_ = nullptr;
  waiter* tail_ = nullptr;
};

/// Makes the parked (or parking) holder of the ticket runnable. False when the ticket was used up before: harmless.
/// Any thread or fiber. The caller must not hold a spin_lock of a run queue.
LAGOM_EXPORT bool unpark(ticket who, wake cause = wake::notified) noexcept;

template <class Rep, class Period>
std::int64_t expiry_after(const std::chrono::duration<Rep, Period>& d) noexcept {
  using namespace std::chrono;
  if (!(d > d.zero())) return 0;  // also NaN
  // Compare in floating point: the conversion of extreme counts to nanoseconds would overflow.
  const double wanted = duration<double, std::nano>(d).count();
  const std::int64_t now = monotonic_now();
  if (wanted >= static_cast<double>(never - now - 1024)) return never;
  const std::int64_t ns = static_cast<std::int64_t>(ceil<nanoseconds>(d).count());
  return now + ns;
}

template <class Clock, class Duration>
std::int64_t expiry_at(const std::chrono::time_point<Clock, Duration>& tp) noexcept {
  using namespace std::chrono;
  if constexpr (std::is_same_v<Clock, steady_clock>) {
    const double wanted = duration<double, std::nano>(tp.time_since_epoch()).count();
    if (wanted <= 0) return 0;
    if (wanted >= static_cast<double>(never - 1024)) return never;
    return static_cast<std::int64_t>(ceil<nanoseconds>(tp.time_since_epoch()).count());
  } else {
    // Other clocks may jump: the distance is taken once, and steady time is waited for.
    const double wanted = duration<double, std::nano>(tp.time_since_epoch()).count() -
                          duration<double, std::nano>(Clock::now().time_since_epoch()).count();
    if (!(wanted > 0)) return 0;
    if (wanted >= static_cast<double>(never) / 2) return never;
    return expiry_after(tp - Clock::now());
  }
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
