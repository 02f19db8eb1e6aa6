// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <stop_token>

#include <lagom/attributes.hpp>
#include <lagom/detail/export.hpp>
#include <lagom/detail/wait_queue.hpp>
#include <lagom/fiber.hpp>

namespace lagom {
inline namespace v0 {
namespace detail {
LAGOM_EXPORT void sleep_until_ns(std::int64_t expiry);
}

/// The calling fiber. On a plain thread: the thread's own equivalent where there is one, else errc::no_runtime.
namespace this_fiber {

/// Id of the calling fiber; the empty id on a plain thread.
LAGOM_EXPORT fiber::id get_id() noexcept;

/// Gives way to the next eligible fiber, staying runnable; forfeits the rest of the slice if eligible. Plain thread: yields the OS thread.
LAGOM_EXPORT void yield() noexcept;

/// Gives way only if somebody should run instead: the slice is used up while others wait, or a woken fiber is to be preferred.
/// A few nanoseconds when nobody waits. Plain thread: nothing.
LAGOM_EXPORT void checkpoint() noexcept;

/// Sleeps at least d (never less, by std::chrono::steady_clock). Zero and negative return at once. Throws std::system_error(errc::stopped)
/// when a stop of the fiber is requested before or meanwhile. Plain thread: sleeps the thread.
template <class Rep, class Period>
void sleep_for(const std::chrono::duration<Rep, Period>& d) {
  detail::sleep_until_ns(detail::expiry_after(d));
}
template <class Clock, class Duration>
void sleep_until(const std::chrono::time_point<Clock, Duration>& tp) {
  detail::sleep_until_ns(detail::expiry_at(tp));
}

/// Has a stop of this fiber been requested? One load. Plain thread: false.
LAGOM_EXPORT bool stop_requested() noexcept;
/// Plain thread: a token that can never be stopped.
LAGOM_EXPORT std::stop_token get_stop_token();

LAGOM_EXPORT attributes get_attributes();
LAGOM_EXPORT fiber_stats stats();
/// As those of lagom::fiber, of the caller, and in effect on return: it has moved if it had to, unless it is inside
/// non_migratable or no_suspend. Plain thread: errc::no_runtime.
LAGOM_EXPORT void set_attributes(const attributes& a);
LAGOM_EXPORT void change(const attribute_change& c);
LAGOM_EXPORT void set_nice(int nice);
LAGOM_EXPORT void set_slice(std::chrono::nanoseconds slice);
LAGOM_EXPORT void set_policy(policy p);

/// Index of the worker that runs the caller, or runtime::no_worker on a plain thread. May change at every wait.
LAGOM_EXPORT unsigned worker_index() noexcept;

}  // namespace this_fiber

/// The same question as checkpoint(), asked by a loop that decides itself what to do. Create it inside the fiber that uses it.
class yield_point {
 public:
  LAGOM_EXPORT yield_point() noexcept;
  /// Should the caller give way? One load; one more and a clock read while others wait.
  LAGOM_EXPORT bool should_yield() const noexcept;
  /// checkpoint().
  void operator()() const noexcept { this_fiber::checkpoint(); }

 private:
  detail::fiber_block* fiber_;
};

/// Scope guards of the calling fiber. They nest, cost some ten nanoseconds, and must end on the fiber that made them
/// (asserted). On a plain thread, which never moves, is never switched away and is never asked to stop, they do nothing.

/// Keeps the fiber on its worker: it may wait inside and continues on the same OS thread. For code that keeps something
/// per thread over a wait: a std::mutex, a library with thread-local handles. Other fibers run on that thread meanwhile,
/// so a std::mutex that several fibers of one worker lock this way blocks the worker for ever; see docs/thread-locals.md.
class [[nodiscard]] non_migratable {
 public:
  LAGOM_EXPORT non_migratable() noexcept;
  non_migratable(const non_migratable&) = delete;
  non_migratable& operator=(const non_migratable&) = delete;
  LAGOM_EXPORT ~non_migratable();

 private:
  detail::fiber_block* fiber_;
};

/// Promises that the fiber does not give its worker away: a wait inside, or a yield, is an error that aborts the process
/// with the fiber's name and what it was about to wait for. What might wait but need not (an uncontended lock) is no
/// error. Preemption points (checkpoint, the end of send or release) do nothing inside.
class [[nodiscard]] no_suspend {
 public:
  LAGOM_EXPORT no_suspend() noexcept;
  no_suspend(const no_suspend&) = delete;
  no_suspend& operator=(const no_suspend&) = delete;
  LAGOM_EXPORT ~no_suspend();

 private:
  detail::fiber_block* fiber_;
};

/// Holds requests to stop back: no wait inside is ended early by one. The first wait after it is. For work that must be
/// done to its end, such as telling a peer goodbye. stop_requested() still answers truly, callbacks of stop tokens are
/// called, and a wait that was given a stop_token of its own still obeys that.
class [[nodiscard]] uninterruptible {
 public:
  LAGOM_EXPORT uninterruptible() noexcept;
  uninterruptible(const uninterruptible&) = delete;
  uninterruptible& operator=(const uninterruptible&) = delete;
  LAGOM_EXPORT ~uninterruptible();

 private:
  detail::fiber_block* fiber_;
};

}  // namespace v0
}  // namespace lagom
