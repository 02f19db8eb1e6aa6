// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <new>
#include <stop_token>
#include <tuple>
#include <type_traits>
#include <utility>

#include <lagom/attributes.hpp>
#include <lagom/detail/export.hpp>

namespace lagom {
inline namespace v0 {

class runtime;

namespace detail {

struct fiber_block;   // one fiber's control block, see runtime/fiber/fiber.hpp
class runtime_core;

/// A fiber's callable and arguments, moved to the top of the fiber's own stack: no allocation.
template <class F, class... A>
struct task {
  // As std::jthread: a callable that can take a std::stop_token first gets the fiber's.
  static constexpr bool takes_stop_token = std::is_invocable_v<F, std::stop_token, A...>;
  static_assert(takes_stop_token || std::is_invocable_v<F, A...>,
                "lagom: the callable cannot be called with these arguments (after decay, as with std::thread)");

  F function;
  std::tuple<A...> arguments;

  /// Calls and destroys; runs on the fiber. Exceptions leave it after the destruction.
  static void run(void* self, std::stop_token (*token)());
  static void destroy(void* self) noexcept { static_cast<task*>(self)->~task(); }
};

template <class F, class... A>
void task<F, A...>::run(void* self, std::stop_token (*token)()) {
  struct guard {
    task* t;
    ~guard() { t->~task(); }
  } alive{static_cast<task*>(self)};
  std::apply(
      [&](A&... a) {
        if constexpr (takes_stop_token) {
          std::invoke(std::move(alive.t->function), token(), std::move(a)...);
        } else {
          std::invoke(std::move(alive.t->function), std::move(a)...);
        }
      },
      alive.t->arguments);
}

enum class ownership : unsigned char { joinable, detached };

/// A fiber that is not runnable yet: block, stack, room for the task.
struct prepared {
  fiber_block* block;
  void* storage;
};

LAGOM_EXPORT runtime_core& current_core();                       // throws errc::no_runtime on a plain thread
runtime_core& core_of(const runtime& r) noexcept;
/// Throws std::system_error (errc::stopped, out of resources), std::invalid_argument (attributes), std::bad_alloc.
LAGOM_EXPORT prepared prepare_spawn(runtime_core& core, const attributes* attrs, std::size_t size, std::size_t align, ownership who);
/// Makes it runnable; from here on it may have ended already.
LAGOM_EXPORT void commit_spawn(runtime_core& core, fiber_block& block, void (*run)(void*, std::stop_token (*)())) noexcept;
LAGOM_EXPORT void abandon_spawn(runtime_core& core, fiber_block& block) noexcept;

template <class F, class... A>
fiber_block* spawn_task(runtime_core& core, const attributes* attrs, ownership who, F&& f, A&&... a) {
  using task_type = task<std::decay_t<F>, std::decay_t<A>...>;
  const prepared p = prepare_spawn(core, attrs, sizeof(task_type), alignof(task_type), who);
  if constexpr (std::is_nothrow_constructible_v<std::decay_t<F>, F> && (std::is_nothrow_constructible_v<std::decay_t<A>, A> && ...)) {
    new (p.storage) task_type{std::forward<F>(f), std::tuple<std::decay_t<A>...>(std::forward<A>(a)...)};
  } else {
    try {
      new (p.storage) task_type{std::forward<F>(f), std::tuple<std::decay_t<A>...>(std::forward<A>(a)...)};
    } catch (...) {
      abandon_spawn(core, *p.block);
      throw;
    }
  }
  commit_spawn(core, *p.block, &task_type::run);
  return p.block;
}

template <class T>
concept not_attributes = !std::same_as<std::remove_cvref_t<T>, attributes>;

}  // namespace detail
}  // namespace v0
}  // namespace lagom
