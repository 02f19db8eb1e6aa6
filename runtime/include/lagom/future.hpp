// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <future>  // std::future_status, std::future_error
#include <memory>
#include <stop_token>
#include <type_traits>
#include <utility>

#include <lagom/attributes.hpp>
#include <lagom/detail/future_state.hpp>
#include <lagom/detail/task.hpp>
#include <lagom/detail/wait_queue.hpp>

namespace lagom {
inline namespace v0 {

template <class T>
class promise;
template <class Signature>
class packaged_task;

namespace detail {
template <class R, class F>
struct async_call;
}

/// A value, or an exception, that somebody else makes. As std::future, for fibers and plain threads in any mixture; but
/// its destructor never waits, whoever made it. One pointer; T may be move-only, a reference or void.
///
/// A call that needs a shared state and has none (valid() is false) throws std::future_error(no_state). get, wait,
/// wait_for and wait_until throw std::system_error(errc::stopped) when a stop of the calling fiber is requested while
/// they wait; the future is valid still.
template <class T>
class [[nodiscard]] future {
 public:
  future() noexcept = default;
  future(future&&) noexcept = default;
  future& operator=(future&&) noexcept = default;

  bool valid() const noexcept { return static_cast<bool>(state_); }

  /// Waits, then returns the value or throws the exception. The future is not valid after that.
  T get() {
    checked().wait();
    const detail::state_ptr<detail::future_state<T>> state = std::move(state_);
    return state->take();
  }

  /// Waits until there is a result.
  void wait() const { checked().wait(); }

  /// Waits at most d (any unit; zero or less: looks once).
  template <class Rep, class Period>
  std::future_status wait_for(const std::chrono::duration<Rep, Period>& d) const {
    return status(detail::expiry_after(d));
  }

  /// The same with a point in time of any clock. Other clocks than steady_clock are read once, at the call.
  template <class Clock, class Duration>
  std::future_status wait_until(const std::chrono::time_point<Clock, Duration>& tp) const {
    return status(detail::expiry_at(tp));
  }

  /// Is there a result? Never waits.
  bool is_ready() const { return checked().is_ready(); }

  /// Calls f once there is a result: at once in the caller if there is one, else in the fiber or thread that makes it,
  /// right after all who wait have been made runnable. f takes nothing, or this future, which is not valid here then.
  /// It must not throw, and delays whoever made the result. Several are called in order. One allocation.
  template <class F>
  void on_ready(F f) {
    static_assert(std::is_invocable_v<F&, future> || std::is_invocable_v<F&>);
    checked();
    if constexpr (std::is_invocable_v<F&, future>) {
      auto state = state_;
      attach(*state, [f = std::move(f), self = std::move(*this)]() mutable { f(std::move(self)); });
    } else {
      attach(*state_, std::move(f));
    }
  }

  /// co_await returns what get() returns. A coroutine that has to wait is resumed by whoever makes the result; one that
  /// need not wait goes on without being suspended, so a loop over ready futures needs no stack.
  auto operator co_await() {
    checked();
    return awaiter(*this);
  }

 private:
  friend class promise<T>;
  template <class Signature>
  friend class packaged_task;

  explicit future(detail::state_ptr<detail::future_state<T>> state) noexcept : state_(std::move(state)) {}

  detail::future_state<T>& checked() const {
    if (!state_) detail::throw_no_state();
    return *state_;
  }
  std::future_status status(std::int64_t expiry) const {
    return checked().wait_for_ready(expiry) ? std::future_status::ready : std::future_status::timeout;
  }

  template <class F>
  static void attach(detail::future_state<T>& state, F f) {
    struct call final : detail::continuation {
      explicit call(F&& g) : function(std::move(g)) {}
      void run() noexcept override {
        const std::unique_ptr<call> self(this);
        function();
      }
      F function;
    };
    auto node = std::make_unique<call>(std::move(f));
    if (state.add(*node)) {
      node.release();
    } else {
      node.release()->run();
    }
  }

  class awaiter final : detail::continuation {
   public:
    explicit awaiter(future& f) noexcept : future_(f) {}
    bool await_ready() const noexcept { return future_.state_->is_ready(); }
    // Any coroutine handle; this header needs no <coroutine>.
    template <class Handle>
    bool await_suspend(Handle coroutine) noexcept {
      address_ = coroutine.address();
      resume_ = [](void* address) { Handle::from_address(address).resume(); };
      // Once added, the coroutine may be running elsewhere, and this object be gone.
      return future_.state_->add(*this);
    }
    T await_resume() { return future_.get(); }

   private:
    void run() noexcept override { resume_(address_); }

    future& future_;
    void* address_ = nullptr;
    void (*resume_)(void*) = nullptr;
  };

  detail::state_ptr<detail::future_state<T>> state_;
};

/// The other end of a future, as std::promise. If it ends without a result, the future gets
/// std::future_error(broken_promise). Errors: std::future_error with no_state, promise_already_satisfied,
/// future_already_retrieved. Never waits.
template <class T>
class promise {
 public:
  promise() : state_(new detail::future_state<T>) {}
  promise(promise&&) noexcept = default;
  promise& operator=(promise&& other) noexcept {
    promise(std::move(other)).swap(*this);
    return *this;
  }
  ~promise() {
    if (state_) state_->abandon();
  }
  void swap(promise& other) noexcept { std::swap(state_, other.state_); }

  /// The future; once.
  future<T> get_future() {
    checked().retrieve();
    return future<T>(state_);
  }

  /// set_value(), set_value(T&) or set_value(value): makes the result and wakes who waits. What the value's constructor
  /// throws goes to the caller, and there is no result yet.
  void set_value() requires std::is_void_v<T> { checked().set(); }
  template <class U = T>
  requires(!std::is_void_v<T>) void set_value(U&& value) { checked().set(std::forward<U>(value)); }
  void set_exception(std::exception_ptr error) {
    checked().claim();
    state_->publish_error(std::move(error));
  }

 private:
  template <class R, class F>
  friend struct detail::async_call;

  detail::future_state<T>& checked() const {
    if (!state_) detail::throw_no_state();
    return *state_;
  }

  detail::state_ptr<detail::future_state<T>> state_;
};

/// A function whose result goes to a future, as std::packaged_task. Runs where it is called.
template <class R, class... A>
class packaged_task<R(A...)> {
 public:
  packaged_task() noexcept = default;
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, packaged_task> &&
           std::is_invocable_r_v<R, std::decay_t<F>&, A...>) explicit packaged_task(F&& f)
      : state_(new holding<std::decay_t<F>>(std::forward<F>(f))) {}
  packaged_task(packaged_task&&) noexcept = default;
  packaged_task& operator=(packaged_task&& other) noexcept {
    packaged_task(std::move(other)).swap(*this);
    return *this;
  }
  ~packaged_task() {
    if (state_) state_->abandon();
  }
  void swap(packaged_task& other) noexcept { std::swap(state_, other.state_); }

  bool valid() const noexcept { return static_cast<bool>(state_); }
  future<R> get_future() {
    checked().retrieve();
    return future<R>(detail::state_ptr<detail::future_state<R>>(state_));
  }
  /// Calls the function. What it returns or throws becomes the result. Once: promise_already_satisfied after that.
  void operator()(A... a) {
    if (checked().was_called.exchange(true, std::memory_order_relaxed)) detail::throw_already_satisfied();
    state_->call(std::forward<A>(a)...);
  }

 private:
  struct callable : detail::future_state<R> {
    virtual void call(A... a) noexcept = 0;
    std::atomic<bool> was_called{false};
  };
  template <class F>
  struct holding final : callable {
    explicit holding(F f) : function(std::move(f)) {}
    void call(A... a) noexcept override { detail::fulfil<R>(*this, function, std::forward<A>(a)...); }
    F function;
  };
  callable& checked() const {
    if (!state_) detail::throw_no_state();
    return *state_;
  }

  detail::state_ptr<callable> state_;
};

namespace detail {

/// What a fiber of async() runs. Takes a stop token if the function does.
template <class R, class F>
struct async_call {
  promise<R> result;
  F function;

  template <class... A>
  requires std::is_invocable_v<F, A...>
  void operator()(A&&... a) {
    fulfil(
        *result.state_,
        [this](auto&&... arguments) -> decltype(auto) {
          return std::invoke(std::move(function), std::forward<decltype(arguments)>(arguments)...);
        },
        std::forward<A>(a)...);
  }
};

template <class F, class... A>
struct async_result {
  static_assert(std::is_invocable_v<F, A...>,
                "lagom::async: the callable cannot be called with these arguments (after decay, as with std::async)");
  using type = std::invoke_result_t<F, A...>;
};
template <class F, class... A>
requires std::is_invocable_v<F, std::stop_token, A...>
struct async_result<F, A...> {
  using type = std::invoke_result_t<F, std::stop_token, A...>;
};
template <class F, class... A>
using async_result_t = typename async_result<std::decay_t<F>, std::decay_t<A>...>::type;

template <class F, class... A>
future<async_result_t<F, A...>> spawn_async(runtime_core& core, const attributes* attrs, F&& f, A&&... a) {
  using result_type = async_result_t<F, A...>;
  async_call<result_type, std::decay_t<F>> call{{}, std::forward<F>(f)};
  auto result = call.result.get_future();
  spawn_task(core, attrs, ownership::detached, std::move(call), std::forward<A>(a)...);
  return result;
}

}  // namespace detail

/// Runs f(a...) on a new fiber of the current runtime, and its result goes to the future. A callable whose first
/// parameter is a std::stop_token gets the fiber's. Errors as spawn(). The fiber is not joined: not even ~future()
/// waits for it.
template <class F, class... A>
requires detail::not_attributes<F>
auto async(F&& f, A&&... a) {
  return detail::spawn_async(detail::current_core(), nullptr, std::forward<F>(f), std::forward<A>(a)...);
}
template <class F, class... A>
auto async(const attributes& attrs, F&& f, A&&... a) {
  return detail::spawn_async(detail::current_core(), &attrs, std::forward<F>(f), std::forward<A>(a)...);
}

}  // namespace v0
}  // namespace lagom
