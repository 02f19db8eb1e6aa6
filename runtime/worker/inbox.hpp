// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>

namespace lagom {
inline namespace v0 {
namespace detail {

// Fibers made runnable for a worker by somebody who does not hold its run queue.
//
// Invariant: a fiber that was pushed is taken exactly once, by whoever holds the worker's queue lock when it calls
// take_all(): the worker itself, or a thief. A push never waits.
//
// No wake-up is lost: push() is a read-modify-write and comes before the pusher looks whether the worker is idle; the
// worker announces itself idle, by a read-modify-write, before it looks into the inbox for the last time. In the single
// order of these four, one of them sees the other. tests/model/ has both checked by Relacy.
//
// Rejected: the run queue's lock (a remote wake would wait for a thief or for a long queue operation, and would put the
// placement of the woken fiber on the waker's bill); a ring (bounded: a push would have to wait or to fail).
// Taking all at once instead of one by one is what makes the ABA problem of a linked stack go away.
template <class Node, template <class> class Atomic = std::atomic>
class inbox {
 public:
  // True if it was empty. Any thread.
  bool push(Node& n) noexcept {
    Node* head = head_.load(std::memory_order_relaxed);  // a guess; corrected by the exchange
    do {
      n.next = head;
      // seq_cst: publishes the node (pairs with take_all) and precedes the look at the idle workers (pairs with announce).
    } while (!head_.compare_exchange_weak(head, &n, std::memory_order_seq_cst, std::memory_order_relaxed));
    return head == nullptr;
  }

  // seq_cst: the worker's last look before it sleeps; pairs with push.
  bool is_empty() const noexcept { return head_.load(std::memory_order_seq_cst) == nullptr; }

  // For the worker while it is awake: a push that is missed here is found by the next step.
  bool seems_empty() const noexcept { return head_.load(std::memory_order_relaxed) == nullptr; }  // a hint

  // All of them, oldest first. REQUIRES: the worker's queue lock.
  Node* take_all() noexcept {
    if (head_.load(std::memory_order_relaxed) == nullptr) return nullptr;  // a later push is found by the next step
    Node* newest = head_.exchange(nullptr, std::memory_order_acquire);     // pairs with push
    Node* oldest = nullptr;
    while (newest) {
      Node* next = newest->next;
      newest->next = oldest;
      oldest = newest;
      newest = next;
    }
    return oldest;
  }

 private:
  Atomic<Node*> head_{nullptr};
};

}  // namespace detail
}  // namespace v0
}  // namespace lagom
