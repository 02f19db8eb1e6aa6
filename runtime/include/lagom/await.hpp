// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <coroutine>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <lagom/latch.hpp>

namespace lagom {
inline namespace v0 {
namespace detail {

/// What `co_await declval<A>()` awaits.
template <class A>
decltype(auto) awaiter_of(A&& a) {
  if constexpr (requires { std::forward<A>(a).operator co_await(); }) {
    return std::forward<A>(a).operator co_await();
  } else if constexpr (requires { operator co_await(std::forward<A>(a)); }) {
    return operator co_await(std::forward<A>(a));
  } else {
    return static_cast<A&&>(a);
  }
}
template <class A>
using await_result_t = decltype(awaiter_of(std::declval<A>()).await_resume());

/// The coroutine that awaits on behalf of a fiber or thread. Its frame ends with the handle.
struct await_driver {
  struct promise_type {
    latch* done = nullptr;

    await_driver get_return_object() noexcept {
      return await_driver(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept {
      struct signal {
        bool await_ready() noexcept { return false; }
        // The last touch of the frame: whoever waits destroys it.
        void await_suspend(std::coroutine_handle<promise_type> self) noexcept { self.promise().done->count_down(); }
        void await_resume() noexcept {}
      };
      return signal{};
    }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }  // the driver catches everything
  };

  explicit await_driver(std::coroutine_handle<promise_type> h) noexcept : handle(h) {}
  // Not every compiler makes what a coroutine returns in its place.
  await_driver(await_driver&& other) noexcept : handle(std::exchange(other.handle, {})) {}
  await_driver& operator=(await_driver&&) = delete;
  ~await_driver() {
    if (handle) handle.destroy();
  }

  void run_to_the_end() {
    latch done(1);
    handle.promise().done = &done;
    handle.resume();
    done.wait();
  }

  std::coroutine_handle<promise_type> handle;
};

template <class A, class Slot>
await_driver drive(A&& a, Slot& value, std::exception_ptr& failure) {
  using result = await_result_t<A>;
  try {
    if constexpr (std::is_void_v<result>) {
      co_await std::forward<A>(a);
    } else if constexpr (std::is_reference_v<result>) {
      value = std::addressof(co_await std::forward<A>(a));
    } else {
      value.emplace(co_await std::forward<A>(a));
    }
  } catch (...) {
    failure = std::current_exception();
  }
}

}  // namespace detail

/// The way from ordinary code into coroutines: waits for anything that a coroutine could co_await, returns what
/// co_await would return, or throws what it throws. A fiber gives its worker away meanwhile, a plain thread sleeps. The
/// coroutine begins on the caller's stack and goes on wherever what it awaits resumes it. Not ended early by a stop
/// request, since the coroutine may refer to the caller's frame. One allocation.
///
/// The other way round, a coroutine awaits fibers through their futures: co_await lagom::async(f).
template <class Awaitable>
decltype(auto) await(Awaitable&& a) {
  using result = detail::await_result_t<Awaitable>;
  std::exception_ptr failure;
  if constexpr (std::is_void_v<result>) {
    std::nullptr_t none = nullptr;
    detail::drive(std::forward<Awaitable>(a), none, failure).run_to_the_end();
    if (failure) std::rethrow_exception(std::move(failure));
  } else if constexpr (std::is_reference_v<result>) {
    std::remove_reference_t<result>* value = nullptr;
    detail::drive(std::forward<Awaitable>(a), value, failure).run_to_the_end();
    if (failure) std::rethrow_exception(std::move(failure));
    return static_cast<result>(*value);
  } else {
    std::optional<std::remove_cv_t<result>> value;
    detail::drive(std::forward<Awaitable>(a), value, failure).run_to_the_end();
    if (failure) std::rethrow_exception(std::move(failure));
    return result(std::move(*value));
  }
}

}  // namespace v0
}  // namespace lagom
