// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <stop_token>

#include <lagom/detail/wait_queue.hpp>

#include "park_word.hpp"

// The waist. Everything that waits, waits through park(); everything that wakes, wakes through unpark(). sync/ and io/
// call these, worker/ implements them, and a plain thread that calls them sleeps on its own futex.
//
// Protocol of one wait:
//
//   waiter                                         waker
//   lock the primitive                             lock the primitive
//   must wait?  w.who = arm(); queue.push_back(w)  w = queue.pop(); t = w->who   (copied: w is on the waiter's stack)
//   unlock the primitive                           unlock the primitive          (its last touch of the primitive)
//   result = park(...)                             unpark(t)
//   if result != notified: lock, unlink w if it is still linked (then it really expired), else it was notified
//
// The word of a parker decides who goes on with the waiter: for each epoch exactly one unpark() has effect, and a fiber is
// never on two queues and never run by two workers. States and invariants: park_word.hpp.
//
// The primitive is released before the switch, not after it: a waker that comes in between finds `armed`.
// A waker never touches the primitive after it has called unpark(), and copies the ticket before it unlocks, so the
// primitive may live on the waiter's stack.
//
// Rejected: releasing the lock from the scheduler's stack after the switch (holds the lock for the length of a switch and
// needs a callback per primitive); claiming the ticket under the lock and publishing it later (the armed waiter would
// have to wait for the publication before it may return); a boolean "wake pending" (a late timer would wake the next wait).
//
// Parkers are type-stable: their memory is never given back, so a stale ticket can always be looked at.
namespace lagom {
inline namespace v0 {
namespace detail {

/// Why something is parked. Each reason is used in one place; dump() prints it.
enum class wait_reason : std::uint8_t {
  none, sleep, join, mutex, condition_variable, semaphore, event, wait_group, channel_send, channel_receive,
  select, readable, writable, shared_mutex, latch, barrier, call_once, future, blocking_call, scope, runtime_run, signal,
  count_
};
const char* to_string(wait_reason reason) noexcept;

struct parker {
  enum class holder : std::uint8_t { fiber, thread };

  explicit parker(holder h) noexcept : what(h) {}
  park_word word;
  const holder what;
};

/// Begins a wait of the caller (fiber or plain thread). From here on unpark() of the ticket has effect.
ticket arm() noexcept;

/// Takes back arm() when the caller need not wait after all.
void disarm() noexcept;

/// Waits until the armed ticket is used, the expiry has passed, or (if stoppable) a stop of the calling fiber is requested.
/// Nothing is interrupted while an exception is in flight. A fiber gives its worker away; a plain thread sleeps.
/// REQUIRES: arm() was called; no spin_lock held; not inside the scheduler.
wake park(wait_reason reason, std::int64_t expiry = never, stoppable stop = stoppable::yes) noexcept;

/// Would park() end at once because a stop of the calling fiber was requested? Never on a plain thread.
bool stop_is_due() noexcept;

/// For waits with a std::stop_token of the caller's choice. Uses the ticket with wake::stopped once the token is stopped.
class stop_watch {
 public:
  stop_watch(const std::stop_token& token, ticket who) : callback_(token, unparker{who}) {}

 private:
  struct unparker {
    ticket who;
    void operator()() const noexcept { unpark(who, wake::stopped); }
  };
  std::stop_callback<unparker> callback_;
};

/// A preemption point for primitives that have just made somebody runnable (send, release), after they are done:
/// gives way if the run queue asked for it. Does nothing on a plain thread.
void preemption_point() noexcept;

}  // namespace detail
}  // namespace v0
}  // namespace lagom
