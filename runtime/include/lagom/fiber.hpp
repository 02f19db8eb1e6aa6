// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <lagom/attributes.hpp>
#include <lagom/detail/export.hpp>
#include <lagom/detail/task.hpp>
#include <lagom/detail/wait_queue.hpp>
#include <lagom/error.hpp>

namespace lagom {
inline namespace v0 {

enum class fiber_state { created, runnable, running, parked, exited };
LAGOM_EXPORT const char* to_string(fiber_state s) noexcept;

/// What one fiber has used so far. Durations are exact to one switch.
struct fiber_stats {
  std::chrono::nanoseconds cpu_time{0}, wait_time{0}, wait_max{0};   ///< running; runnable but waiting; the longest such wait
  std::uint64_t switches_voluntary = 0, switches_involuntary = 0, migrations = 0;
  unsigned worker = 0;
  int utilization = 0;            ///< 0 … 1024
  fiber_state state = fiber_state::created;
  /// Bytes of stack touched so far, in whole pages from the top down to the lowest page in memory; 0 where the system does not tell,
  /// and after the fiber has ended. An upper bound: stacks are reused with the pages that earlier fibers touched, unless
  /// runtime_options::measure_stacks is set, which also keeps the figure after the end. O(stack_size), 1 us for 256 KiB.
  std::size_t stack_used = 0;
};

/// A line of dump(): one fiber that is alive.
struct fiber_info {
  std::uint64_t id = 0;
  std::string name;
  fiber_state state = fiber_state::created;
  std::string wait_reason;                 ///< empty unless parked
  std::chrono::nanoseconds since{0};       ///< how long it has been in this state
  std::vector<const void*> backtrace;      ///< return addresses, innermost first; empty while it runs
  std::size_t stack_used = 0, stack_size = 0;   ///< bytes; as in fiber_stats; of how many. 0: not known
};

/// Handle of a fiber: one pointer, moved not copied, behaves as std::jthread. The handle may be used from any thread or fiber,
/// by one at a time. It may outlive the runtime (whose end waits for the fiber): join() still rethrows then, but an exception met by
/// the destructor or detach() is dropped.
class [[nodiscard]] fiber {
 public:
  /// Identifies a fiber for the life of the process; never reused. A default-constructed id is that of no fiber.
  class id {
   public:
    id() noexcept = default;
    explicit id(std::uint64_t value) noexcept : value_(value) {}
    std::uint64_t value() const noexcept { return value_; }
    friend auto operator<=>(id, id) noexcept = default;
    friend LAGOM_EXPORT std::ostream& operator<<(std::ostream& out, id i);

   private:
    std::uint64_t value_ = 0;
  };

  fiber() noexcept = default;

  /// Spawns on the current runtime. On a plain thread: std::system_error(errc::no_runtime). Errors otherwise as runtime::spawn.
  template <class F, class... A>
    requires(!std::same_as<std::remove_cvref_t<F>, fiber> && detail::not_attributes<F>)
  explicit fiber(F&& f, A&&... a)
      : block_(detail::spawn_task(detail::current_core(), nullptr, detail::ownership::joinable, std::forward<F>(f),
                                  std::forward<A>(a)...)) {}
  template <class F, class... A>
  fiber(const attributes& attrs, F&& f, A&&... a)
      : block_(detail::spawn_task(detail::current_core(), &attrs, detail::ownership::joinable, std::forward<F>(f),
                                  std::forward<A>(a)...)) {}

  fiber(fiber&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  fiber& operator=(fiber&& other) noexcept {
    if (this != &other) {
      finish();
      block_ = std::exchange(other.block_, nullptr);
    }
    return *this;
  }
  /// Requests a stop and joins if still joinable. An exception met here goes to runtime_options::on_uncaught.
  ~fiber() {
    if (block_) finish();
  }

  /// Waits until the fiber has ended, then rethrows what left it, once. Fiber or thread. Throws errc::not_joinable for an
  /// empty handle, errc::would_deadlock from the fiber itself, errc::stopped when the calling fiber is stopped (the handle stays joinable).
  LAGOM_EXPORT void join();
  /// As join(), but gives up after d: false.
  template <class Rep, class Period>
  bool join_for(const std::chrono::duration<Rep, Period>& d) {
    return join_until_ns(detail::expiry_after(d));
  }
  LAGOM_EXPORT void detach();
  bool joinable() const noexcept { return block_ != nullptr; }
  LAGOM_EXPORT id get_id() const noexcept;

  /// Asks the fiber to stop: its waits return early, its stop_token fires. True for the first request. Any thread or fiber.
  /// Callbacks of the token run in the caller, which stays on its thread meanwhile. They should not wait: ~stop_callback knows
  /// who is calling back by the thread, and on that thread takes another fiber for the callback itself.
  LAGOM_EXPORT bool request_stop() noexcept;
  LAGOM_EXPORT std::stop_token get_stop_token() const;
  /// A request through the source is one to the fiber. It may outlive the fiber, and does nothing then.
  LAGOM_EXPORT std::stop_source get_stop_source();

  LAGOM_EXPORT attributes get_attributes() const;
  /// States everything: what a is not told goes back to its default. set_attributes(get_attributes()) changes nothing. stack_size and
  /// stack must be what the fiber was spawned with. Throws std::invalid_argument (says which field, and what would be right) and
  /// changes nothing then; std::system_error(errc::not_joinable) for an empty handle; std::bad_alloc. Any thread or fiber, whatever
  /// the fiber does meanwhile; get_attributes() shows it on return, it takes effect at the fiber's worker's next step: a running fiber
  /// is charged by the old values up to there, a sleeping one wakes with the new ones. Of a new slice the request in progress still
  /// has the old length. A fiber that may not stay where it is moves when it next gives way; while it is pinned or inside
  /// non_migratable it stays. A fiber that has ended stays as it was. Nothing to change: some ten nanoseconds, no queue is touched.
  LAGOM_EXPORT void set_attributes(const attributes& a);
  /// The same of some attributes only.
  LAGOM_EXPORT void change(const attribute_change& c);
  LAGOM_EXPORT void set_nice(int nice);
  LAGOM_EXPORT void set_slice(std::chrono::nanoseconds slice);  ///< 0: default mode
  LAGOM_EXPORT void set_policy(lagom::policy p);
  LAGOM_EXPORT fiber_stats stats() const;

  void swap(fiber& other) noexcept { std::swap(block_, other.block_); }

 private:
  friend class runtime;
  friend struct detail::fiber_block;
  explicit fiber(detail::fiber_block* block) noexcept : block_(block) {}
  friend fiber make_fiber(detail::fiber_block* block) noexcept;
  LAGOM_EXPORT void finish() noexcept;
  LAGOM_EXPORT bool join_until_ns(std::int64_t expiry);

  detail::fiber_block* block_ = nullptr;
};

/// Spawns on the current runtime; see runtime::spawn.
template <class F, class... A>
  requires detail::not_attributes<F>
fiber spawn(F&& f, A&&... a) {
  return fiber(std::forward<F>(f), std::forward<A>(a)...);
}
template <class F, class... A>
fiber spawn(const attributes& attrs, F&& f, A&&... a) {
  return fiber(attrs, std::forward<F>(f), std::forward<A>(a)...);
}
/// As spawn, without a handle: nobody joins it. An exception that leaves it goes to runtime_options::on_uncaught.
template <class F, class... A>
  requires detail::not_attributes<F>
void spawn_detached(F&& f, A&&... a) {
  detail::spawn_task(detail::current_core(), nullptr, detail::ownership::detached, std::forward<F>(f), std::forward<A>(a)...);
}
template <class F, class... A>
void spawn_detached(const attributes& attrs, F&& f, A&&... a) {
  detail::spawn_task(detail::current_core(), &attrs, detail::ownership::detached, std::forward<F>(f), std::forward<A>(a)...);
}

}  // namespace v0
}  // namespace lagom

template <>
struct std::hash<lagom::fiber::id> {
  std::size_t operator()(lagom::fiber::id i) const noexcept { return std::hash<std::uint64_t>{}(i.value()); }
};
