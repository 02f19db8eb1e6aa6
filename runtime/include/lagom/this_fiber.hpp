// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <stop_token>

#include <lagom/attributes.hpp>
#include <lagom/detail/wait_queue.hpp>
#include <lagom/fiber.hpp>

namespace lagom {
inline namespace v0 {
namespace detail {
void sleep_until_ns(std::int64_t expiry);
}

/// The calling fiber. On a plain thread: the thread's own equivalent where there is one, else errc::no_runtime.
namespace this_fiber {

/// Id of the calling fiber; the empty id on a plain thread.
fiber::id get_id() noexcept;

/// Gives way to the next eligible fiber, staying runnable; forfeits the rest of the slice if eligible. Plain thread: yields the OS thread.
void yield() noexcept;

/// Gives way only if somebody should run instead: the slice is used up while others wait, or a woken fiber is to be preferred.
/// A few nanoseconds when nobody waits. Plain thread: nothing.
void checkpoint() noexcept;

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
bool stop_requested() noexcept;
/// Plain thread: a token that can never be stopped.
std::stop_token get_stop_token();

attributes get_attributes();
fiber_stats stats();

/// Index of the worker that runs the caller, or runtime::no_worker on a plain thread. May change at every wait.
unsigned worker_index() noexcept;

}  // namespace this_fiber

/// The same question as checkpoint(), asked by a loop that decides itself what to do. Create it inside the fiber that uses it.
class yield_point {
 public:
  yield_point() noexcept;
  /// Should the caller give way? One load; one more and a clock read while others wait.
  bool should_yield() const noexcept;
  /// checkpoint().
  void operator()() const noexcept { this_fiber::checkpoint(); }

 private:
  detail::fiber_block* fiber_;
};

}  // namespace v0
}  // namespace lagom
