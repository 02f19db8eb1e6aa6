// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <lagom/detail/export.hpp>
#include <lagom/detail/spin_lock.hpp>
#include <lagom/detail/wait_queue.hpp>

namespace lagom {
inline namespace v0 {
namespace detail {

/// Something to be done when a future becomes ready. May end itself in run().
struct continuation {
  continuation* next = nullptr;
  virtual void run() noexcept = 0;

 protected:
  ~continuation() = default;
};

/// What a promise and its future share, but for the value. Lives while one of them does.
///
///   empty ──claim()──► claimed ──publish()──► ready      (the value is made between the two, without a lock)
class future_state_base {
 public:
  future_state_base() = default;
  future_state_base(const future_state_base&) = delete;
  future_state_base& operator=(const future_state_base&) = delete;

  void retain() noexcept { owners_.fetch_add(1, std::memory_order_relaxed); }  // by somebody who has it already
  void release() noexcept {
    // acq_rel: the last owner sees what the others have done before they let go.
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  bool is_ready() const noexcept {
    // acquire: pairs with publish(); the value is complete.
    return ready_.load(std::memory_order_acquire);
  }
  LAGOM_EXPORT wake wait_until_ns(std::int64_t expiry) noexcept;
  /// Waits, however long. Throws std::system_error(errc::stopped).
  LAGOM_EXPORT void wait();
  /// Waits until expiry. Throws std::system_error(errc::stopped). True: ready.
  LAGOM_EXPORT bool wait_for_ready(std::int64_t expiry);
  /// False: is ready already, `then` will not be run.
  LAGOM_EXPORT bool add(continuation& then) noexcept;

  /// Only one may make the result. Throws std::future_error(promise_already_satisfied).
  LAGOM_EXPORT void claim();
  /// The value could not be made.
  LAGOM_EXPORT void disclaim() noexcept;
  /// Makes everybody who waits runnable, then runs the continuations, in the order in which they came.
  LAGOM_EXPORT void publish() noexcept;
  LAGOM_EXPORT void publish_error(std::exception_ptr error) noexcept;
  /// For the promise's destructor: broken_promise, unless there is a result.
  LAGOM_EXPORT void abandon() noexcept;
  /// Throws std::future_error(future_already_retrieved) the second time.
  LAGOM_EXPORT void retrieve();

  void rethrow_error() const {
    if (error_) std::rethrow_exception(error_);
  }

 protected:
  virtual ~future_state_base() = default;

 private:
  std::atomic<std::uint32_t> owners_{1};
  std::atomic<bool> ready_{false};
  spin_lock guard_;
  bool claimed_ = false;
  bool retrieved_ = false;
  wait_queue waiters_;
  continuation* first_ = nullptr;
  continuation** last_ = &first_;
  std::exception_ptr error_;  // before it is ready: the claimer's; then nobody writes it
};

template <class T>
class future_state : public future_state_base {
 public:
  template <class... A>
  void set(A&&... a) {
    claim();
    try {
      value_.emplace(std::forward<A>(a)...);
    } catch (...) {
      disclaim();
      throw;
    }
    publish();
  }
  T take() {
    rethrow_error();
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
};

template <class T>
class future_state<T&> : public future_state_base {
 public:
  void set(T& referred) {
    claim();
    value_ = std::addressof(referred);
    publish();
  }
  T& take() {
    rethrow_error();
    return *value_;
  }

 private:
  T* value_ = nullptr;
};

template <>
class future_state<void> : public future_state_base {
 public:
  void set() {
    claim();
    publish();
  }
  void take() { rethrow_error(); }
};

/// One of the owners of a state.
template <class State>
class state_ptr {
 public:
  state_ptr() noexcept = default;
  explicit state_ptr(State* adopted) noexcept : state_(adopted) {}
  state_ptr(const state_ptr& other) noexcept : state_(other.state_) {
    if (state_) state_->retain();
  }
  template <class Derived>
  requires(std::is_base_of_v<State, Derived> && !std::is_same_v<State, Derived>)
      state_ptr(const state_ptr<Derived>& other)
  noexcept : state_(other.get()) {
    if (state_) state_->retain();
  }
  state_ptr(state_ptr&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  state_ptr& operator=(state_ptr other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~state_ptr() {
    if (state_) state_->release();
  }
  State* get() const noexcept { return state_; }
  State* operator->() const noexcept { return state_; }
  State& operator*() const noexcept { return *state_; }
  explicit operator bool() const noexcept { return state_ != nullptr; }

 private:
  State* state_ = nullptr;
};

[[noreturn]] LAGOM_EXPORT void throw_no_state();
[[noreturn]] LAGOM_EXPORT void throw_already_satisfied();

/// Calls f and makes what it returns or throws the result of the state. REQUIRES: nobody else makes it.
template <class R, class F, class... A>
void fulfil(future_state<R>& state, F&& f, A&&... a) noexcept {
  try {
    if constexpr (std::is_void_v<R>) {
      std::forward<F>(f)(std::forward<A>(a)...);
      state.set();
    } else {
      state.set(std::forward<F>(f)(std::forward<A>(a)...));
    }
  } catch (...) {
    state.claim();
    state.publish_error(std::current_exception());
  }
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
