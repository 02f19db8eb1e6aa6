// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <stop_token>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <lagom/attributes.hpp>
#include <lagom/detail/export.hpp>
#include <lagom/detail/spin_lock.hpp>
#include <lagom/detail/task.hpp>
#include <lagom/detail/wait_queue.hpp>
#include <lagom/fiber.hpp>
#include <lagom/future.hpp>
#include <lagom/mutex.hpp>
#include <lagom/this_fiber.hpp>

namespace lagom {
inline namespace v0 {

/// What a scope does with an exception that leaves one of its fibers.
enum class on_error {
  cancel_all,  ///< asks all others to stop; join() rethrows the first exception
  collect,     ///< the others go on; join() rethrows the first, errors() has all
  call,        ///< the others go on; the scope's function gets it, in the fiber that failed
};

namespace detail {
struct scope_child;
template <class F, class... A>
struct scope_call;
}  // namespace detail

/// Structured concurrency: the fibers spawned in a scope end before the scope does.
///
/// A fiber that ends is freed at once; a scope may run any number of them. Its fibers may spawn further ones in it.
/// Callables and their arguments are destroyed before join() returns.
///
/// A stop request to the fiber that joins or destroys the scope is passed on to the fibers in it. What they throw to
/// obey it (std::system_error with errc::stopped, once a stop was requested of the scope) is no error.
///
/// The scope belongs to one fiber or thread, which joins and destroys it; the other calls may come from anywhere while
/// it lives. Spawning needs a current runtime.
class scope {
 public:
  /// on_error::call needs a function, which must not throw; otherwise std::invalid_argument.
  LAGOM_EXPORT explicit scope(on_error mode = on_error::cancel_all, std::function<void(std::exception_ptr)> function = {});
  scope(const scope&) = delete;
  scope& operator=(const scope&) = delete;
  /// Waits for all; asks them to stop first if an exception is leaving the block. An exception that no join() has
  /// rethrown, and that is not overtaken by another, goes to runtime_options::on_uncaught.
  LAGOM_EXPORT ~scope();

  /// As lagom::spawn. std::system_error(errc::stopped) after request_stop().
  template <class F, class... A>
  requires detail::not_attributes<F>
  void spawn(F&& f, A&&... a) { start(nullptr, std::forward<F>(f), std::forward<A>(a)...); }
  template <class F, class... A>
  void spawn(const attributes& attrs, F&& f, A&&... a) {
    start(&attrs, std::forward<F>(f), std::forward<A>(a)...);
  }

  /// As lagom::async. What f throws goes to the future and is no error of the scope. The future may outlive the scope.
  template <class F, class... A>
  requires detail::not_attributes<F>
  auto async(F&& f, A&&... a) { return start_async(nullptr, std::forward<F>(f), std::forward<A>(a)...); }
  template <class F, class... A>
  auto async(const attributes& attrs, F&& f, A&&... a) {
    return start_async(&attrs, std::forward<F>(f), std::forward<A>(a)...);
  }

  /// Waits until no fiber is left, then rethrows the first exception, once. When the calling fiber is stopped: asks all
  /// to stop, waits for them all the same, and throws std::system_error(errc::stopped) if there is nothing worse.
  LAGOM_EXPORT void join();

  /// Waits at most d (any unit). False: fibers are left, because the time is over or the calling fiber was stopped
  /// (then the stop has been passed on). True: as after join().
  template <class Rep, class Period>
  bool join_for(const std::chrono::duration<Rep, Period>& d) {
    return join_until_ns(detail::expiry_after(d));
  }

  /// Asks all fibers of the scope to stop, and refuses new ones. O(fibers). Any fiber or thread.
  LAGOM_EXPORT void request_stop() noexcept;
  LAGOM_EXPORT bool stop_requested() const noexcept;

  /// Fibers that have not ended.
  LAGOM_EXPORT std::size_t size() const noexcept;

  /// on_error::collect: everything that was thrown so far, in the order in which it came.
  LAGOM_EXPORT std::vector<std::exception_ptr> errors() const;

 private:
  template <class F, class... A>
  friend struct detail::scope_call;

  template <class F, class... A>
  void start(const attributes* attrs, F&& f, A&&... a) {
    detail::scope_child& child = open();
    try {
      detail::scope_call<std::decay_t<F>, std::decay_t<A>...> call(*this, child, std::forward<F>(f),
                                                                   std::forward<A>(a)...);
      opened(child, attrs ? lagom::spawn(*attrs, std::move(call)) : lagom::spawn(std::move(call)));
    } catch (...) {
      not_opened(child);
      throw;
    }
  }
  template <class F, class... A>
  auto start_async(const attributes* attrs, F&& f, A&&... a) {
    using result_type = detail::async_result_t<F, A...>;
    detail::async_call<result_type, std::decay_t<F>> call{{}, std::forward<F>(f)};
    auto result = call.result.get_future();
    start(attrs, std::move(call), std::forward<A>(a)...);
    return result;
  }

  LAGOM_EXPORT detail::scope_child& open();
  LAGOM_EXPORT void opened(detail::scope_child& child, fiber&& handle) noexcept;
  LAGOM_EXPORT void not_opened(detail::scope_child& child) noexcept;
  LAGOM_EXPORT void failed(std::exception_ptr error) noexcept;  // the child's last calls
  LAGOM_EXPORT void ended(detail::scope_child& child) noexcept;

  void wait_for_all() noexcept;
  detail::wake wait_until_ns(std::int64_t expiry) noexcept;
  LAGOM_EXPORT bool join_until_ns(std::int64_t expiry);
  void rethrow_error();

  const on_error mode_;
  const int exceptions_at_start_;
  const std::function<void(std::exception_ptr)> function_;

  mutable detail::spin_lock guard_;
  bool stopping_ = false;
  std::size_t live_ = 0;
  detail::scope_child* first_ = nullptr;
  detail::scope_child* last_ = nullptr;
  detail::wait_queue joiners_;

  mutable mutex errors_guard_;              // not a spin lock: the vector allocates
  std::exception_ptr error_;                // the first, until it is rethrown
  std::vector<std::exception_ptr> errors_;  // on_error::collect
};

namespace detail {

/// What a fiber of a scope runs: the callable, and word to the scope when that is over and destroyed.
template <class F, class... A>
struct scope_call {
  using task_type = task<F, A...>;

  template <class G, class... B>
  scope_call(scope& s, scope_child& c, G&& g, B&&... b)
      : owner(&s), child(&c), content(std::in_place, std::forward<G>(g), std::tuple<A...>(std::forward<B>(b)...)) {}

  void operator()() {
    std::exception_ptr error;
    try {
      run(std::move(*content));
    } catch (...) {
      error = std::current_exception();
    }
    content.reset();
    if (error) owner->failed(std::move(error));
    owner->ended(*child);
  }

 private:
  struct parts {
    template <class G>
    parts(G&& f, std::tuple<A...>&& a) : function(std::forward<G>(f)), arguments(std::move(a)) {}
    F function;
    std::tuple<A...> arguments;
  };
  static void run(parts all) {
    std::apply(
        [&](A&... a) {
          if constexpr (task_type::takes_stop_token) {
            std::invoke(std::move(all.function), this_fiber::get_stop_token(), std::move(a)...);
          } else {
            std::invoke(std::move(all.function), std::move(a)...);
          }
        },
        all.arguments);
  }

  scope* owner;
  scope_child* child;
  std::optional<parts> content;
};

}  // namespace detail
}  // namespace v0
}  // namespace lagom
