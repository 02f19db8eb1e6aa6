// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <lagom/attributes.hpp>
#include <lagom/detail/export.hpp>

namespace lagom {
inline namespace v0 {

/// How the operating system is to treat the thread that runs one blocking() call; the thread gets its own values back
/// afterwards, or ends if it may not take them back. Aggregate; fields are only ever appended.
struct blocking_options {
  lagom::policy os_policy = policy::normal;  ///< normal: as the process. batch, idle: SCHED_BATCH, SCHED_IDLE
  std::optional<int> os_nice{};              ///< -20 … 19; unset: as the process. Out of range is clamped as Linux does
};

namespace detail {

struct blocking_call {
  explicit blocking_call(void (*f)(void*)) noexcept : run(f) {}
  void (*run)(void* self);
};

/// Is the caller a fiber, so that its worker must not be held?
LAGOM_EXPORT bool should_offload() noexcept;
/// Calls call.run(&call) on a thread of the pool and waits. The function must not throw.
LAGOM_EXPORT void offload(blocking_call& call, const blocking_options& options);

/// A callable, and what becomes of it, on the frame of the fiber that waits.
template <class F, class R>
struct offloaded : blocking_call {
  explicit offloaded(F& f) noexcept : blocking_call(&go), function(f) {}

  static void go(void* self) {
    auto& call = *static_cast<offloaded*>(static_cast<blocking_call*>(self));
    try {
      if constexpr (std::is_void_v<R>) {
        std::invoke(std::forward<F>(call.function));
      } else if constexpr (std::is_reference_v<R>) {
        call.value = std::addressof(static_cast<std::remove_reference_t<R>&>(std::invoke(std::forward<F>(call.function))));
      } else {
        call.value.emplace(std::invoke(std::forward<F>(call.function)));
      }
    } catch (...) {
      call.failure = std::current_exception();
    }
  }
  R take() {
    if (failure) std::rethrow_exception(std::move(failure));
    if constexpr (std::is_reference_v<R>) {
      return static_cast<R>(*value);
    } else if constexpr (!std::is_void_v<R>) {
      return std::move(*value);
    }
  }

  struct nothing {};
  using slot = std::conditional_t<std::is_void_v<R>, nothing,
                                  std::conditional_t<std::is_reference_v<R>, std::remove_reference_t<R>*,
                                                     std::optional<std::remove_cv_t<R>>>>;
  std::remove_reference_t<F>& function;
  slot value{};
  std::exception_ptr failure;
};

}  // namespace detail

/// Calls f on an OS thread of the runtime's pool while the fiber waits and its worker runs others; returns what f
/// returns (a reference too), or rethrows what it throws. For calls that hold the thread: files, getaddrinfo, a library
/// that knows nothing of fibers. On a plain thread f is called at once, by that thread, and the options have no effect.
///
/// f runs as on any plain thread: this_fiber has no fiber, thread_local and fiber_local values are the thread's, lagom's
/// primitives block the thread. It may use what the caller's frame holds, since the caller waits for it.
///
/// The pool starts a thread when none is idle, up to runtime_options::max_blocking_threads; further calls wait their
/// turn, in order. An idle thread ends after runtime_options::blocking_keep_alive. The end of the runtime waits for all.
///
/// Stop: a call that has not begun ends early with std::system_error(errc::stopped), and f is not called. One that has
/// begun is waited for whatever happens. Throws std::system_error too when the options are not permitted (EPERM: a nice
/// value below the present one) or no first thread can be started; f is not called then.
///
/// About 10 µs and two switches between threads: worth it for calls that may take longer than that.
template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, blocking_options>)
decltype(auto) blocking(const blocking_options& options, F&& f) {
  using result = std::invoke_result_t<F>;
  if (!detail::should_offload()) return static_cast<result>(std::invoke(std::forward<F>(f)));
  detail::offloaded<F, result> call(f);
  detail::offload(call, options);
  return call.take();
}
template <class F>
decltype(auto) blocking(F&& f) {
  return lagom::blocking(blocking_options{}, std::forward<F>(f));
}

}  // namespace v0
}  // namespace lagom
