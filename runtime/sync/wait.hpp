// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <lagom/detail/spin_lock.hpp>
#include <lagom/detail/wait_queue.hpp>

#include "fiber/park.hpp"

// The two halves of every primitive: waiting in its queue, and waking from its queue.
namespace lagom {
inline namespace v0 {
namespace detail {

/// Is there nothing to wait for? And what is done then, without a lock, in place of a wait.
inline bool is_over_at_once(std::int64_t expiry) noexcept {
  return expiry != never && (expiry <= 0 || expiry <= monotonic_now());
}
void give_way_instead_of_waiting(std::int64_t expiry) noexcept;

/// For a waiter whose park() did not end by a notification: decides by `linked` how the wait ended.
wake settle(spin_lock& lock, wait_queue& queue, waiter& w, wake how) noexcept;

/// Second half of a wait whose queue entry exists already.
inline wake park_in_queue(spin_lock& lock, wait_queue& queue, waiter& w, wait_reason reason, std::int64_t expiry,
                          stoppable stop) noexcept {
  const wake how = park(reason, expiry, stop);
  return how == wake::notified ? how : settle(lock, queue, w, how);
}

/// Waits at the end of the queue until a waker unlinks w (notified), or until w has unlinked itself (expired, stopped).
/// A waker that was first wins even if the timer woke the waiter, so nothing that was handed over is ever dropped.
/// An expiry in the past means: do not wait, but give way to others. Returns with the lock released, and after
/// `notified` the primitive is not touched any more. Inline: each frame between a switch and the user costs a return
/// that the CPU cannot foresee.
inline wake wait_and_unlock(spin_lock& lock, wait_queue& queue, waiter& w, wait_reason reason,
                            std::int64_t expiry = never, stoppable stop = stoppable::yes) noexcept
    LAGOM_THREAD_SAFETY(release_capability(lock)) {
  if (is_over_at_once(expiry)) {
    lock.unlock();
    give_way_instead_of_waiting(expiry);
    return wake::expired;
  }
  w.who = arm();
  queue.push_back(w);
  lock.unlock();
  return park_in_queue(lock, queue, w, reason, expiry, stop);
}

/// Unlinks the first waiter, releases the lock, makes the waiter runnable.
/// REQUIRES: the queue is not empty and none of its members belongs to a select.
void wake_first_and_unlock(spin_lock& lock, wait_queue& queue) noexcept LAGOM_THREAD_SAFETY(release_capability(lock));

/// Unlinks all waiters, releases the lock, makes them runnable. REQUIRES: none of them belongs to a select.
void wake_all_and_unlock(spin_lock& lock, wait_queue& queue) noexcept LAGOM_THREAD_SAFETY(release_capability(lock));

/// For calls that return nothing or a value: throws std::system_error(errc::stopped).
[[noreturn]] void throw_stopped();

/// Tickets of unlinked waiters, collected under a primitive's lock and used after its release.
///
/// More waiters than fit are made runnable while the lock is still held. Releasing it in between would let a waiter of
/// a timed wait return, and its owner destroy the primitive, before the rest is woken; and a waiter that comes back for
/// the next wait could be woken again, without end.
class wake_batch {
 public:
  wake_batch() noexcept {}  // not = default: the tickets need no initial value
  wake_batch(const wake_batch&) = delete;
  wake_batch& operator=(const wake_batch&) = delete;
  ~wake_batch() { wake_all(); }

  void add(ticket who) noexcept {
    if (size_ == capacity) wake_all();
    tickets_[size_++] = who;
  }
  void wake_all() noexcept {
    for (std::size_t i = 0; i < size_; ++i) unpark(tickets_[i]);
    size_ = 0;
  }

 private:
  static constexpr std::size_t capacity = 32;
  std::size_t size_ = 0;
  union {
    std::array<ticket, capacity> tickets_;
  };
};

}  // namespace detail
}  // namespace v0
}  // namespace lagom
