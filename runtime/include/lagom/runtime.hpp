// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <lagom/attributes.hpp>
#include <lagom/blocking.hpp>
#include <lagom/cpu_set.hpp>
#include <lagom/detail/export.hpp>
#include <lagom/features.hpp>
#include <lagom/fiber.hpp>
#include <lagom/future.hpp>
#include <lagom/histogram.hpp>

namespace lagom {
inline namespace v0 {

enum class preempt { none, voluntary, full };
/// automatic: one CPU per worker, but only if the allowed set is a proper subset of the machine, there is no CPU quota and
/// each allowed CPU has its worker; else none.
enum class pin { automatic, none, llc, cpu };
enum class poller { automatic, epoll, io_uring };

/// Zero means "the default" everywhere. Environment variables LAGOM_WORKERS, LAGOM_SLICE_US, LAGOM_FEATURES, LAGOM_STACK_SIZE,
/// LAGOM_PRINT_CONFIG fill in what code leaves at its default; what code sets wins.
struct runtime_options {
  unsigned workers = 0;                     ///< 0: min(allowed CPUs, ceil(cgroup quota)), at least 1. At most 4,096
  std::chrono::nanoseconds slice{0};        ///< default slice, 1 µs … 100 ms
  std::size_t stack_size = 0;               ///< bytes of address space per fiber, 16 KiB … 1 GiB; 0: 256 KiB
  lagom::features features{};
  std::string topology{};                   ///< "": this machine; "synthetic:<hwloc string>"; "xml:<file>"
  pin pin_mode = pin::automatic;
  lagom::preempt preempt = lagom::preempt::voluntary;
  lagom::poller io_poller = lagom::poller::automatic;
  std::chrono::nanoseconds rescue_after{std::chrono::milliseconds{10}};
  std::chrono::nanoseconds stuck_threshold{std::chrono::seconds{1}};
  unsigned max_blocking_threads = 64;       ///< of the blocking() pool, 1 … 32,768; 0: 64. Started on demand
  std::function<void(const attributes&, std::exception_ptr)> on_uncaught{};  ///< a detached fiber ended by an exception; unset: std::terminate at the throw
  std::function<void(std::string_view)> log{};                               ///< one line each, without a newline; any thread
  std::function<void(unsigned)> on_worker_start{}, on_worker_stop{};         ///< on the worker's thread, with its index
  std::uint64_t chaos_seed = 0;             ///< tests: perturbs order and migrates at every switch
  std::string cgroup_root{};                ///< tests; "": the system's
  std::chrono::nanoseconds blocking_keep_alive{0};  ///< an idle thread of the blocking() pool ends after this; 0: 1 s
  /// On SIGQUIT (Ctrl-\) dump() goes to `log` line by line, or to standard error if that is unset, and the process goes on. A
  /// handler that was installed before is called too, and is back when the runtime ends.
  bool dump_on_sigquit = false;
  /// Every fiber starts on a stack without touched pages, so that fiber_stats::stack_used is its own, also after it has ended; and
  /// runtime_stats::stack_used_max is kept. For finding the right stack_size: costs some 5 us per fiber.
  bool measure_stacks = false;
  /// What a worker's runnable fibers ask for by util_min and util_max becomes the utilization clamps of its OS thread (sched_setattr),
  /// with some delay, so that the system chooses CPU and frequency by it. Where the system has no clamps or allows none: one line
  /// to `log`, and nothing else happens. Mind that the first use switches on their accounting in the kernel, for all processes.
  bool forward_clamps = false;
};

struct worker_stats {
  unsigned index = 0;
  cpu_set cpus;
  std::chrono::nanoseconds busy{0}, idle{0};
  std::uint64_t switches = 0, steals = 0, migrations_in = 0, wakeups = 0;   ///< wakeups: of the worker's thread
  std::size_t queued = 0;
  std::chrono::nanoseconds longest_wait{0};
  int util = 0;
  int util_min = 0, util_max = 1024;        ///< the highest that its runnable fibers ask for; 0 and 1024 if there are none
};

struct runtime_stats {
  std::vector<worker_stats> workers;
  std::size_t fibers = 0;                   ///< alive now
  std::uint64_t spawned = 0, finished = 0, uncaught = 0;
  histogram wake_latency;                   ///< from runnable to running
  std::size_t blocking_threads = 0, blocking_calls = 0;   ///< the pool of blocking(): its threads; calls that run or queue
  std::size_t stack_used_max = 0;           ///< most bytes of stack that a fiber had used when it ended; 0 without measure_stacks
};

/// Who was left when a stop gave up waiting.
struct [[nodiscard]] stop_report {
  bool clean() const noexcept { return left.empty(); }
  std::vector<fiber_info> left;
};

/// Workers, their run queues and all that belongs to them. Several may live side by side.
///
/// fork(): any thread or fiber may call it. The child has one thread, a plain one even if a fiber called. It may exec (no descriptor
/// of a runtime is left then), _exit, or make a runtime of its own. On one of the parent's, calls throw errc::forked, request_stop()
/// does nothing and the destructor returns at once; join() of a parent's fiber throws errc::forked, its handle's destructor returns at
/// once. A fiber that forked must not return there (aborts). Mutexes and channels that other threads or fibers use are as std::mutex
/// is after a fork: not to be touched. Not seen: vfork(), clone().
class runtime {
 public:
  static constexpr unsigned no_worker = ~0u;

  /// Starts the workers. std::invalid_argument for bad options (says which, and what would be right), std::system_error when
  /// threads or memory cannot be had; then nothing is left running.
  LAGOM_EXPORT explicit runtime(runtime_options options = {});
  /// request_stop(), then waits without limit until every fiber has ended; logs who is left after 5 s. When one of its own fibers
  /// calls std::exit() and the runtime is static, it waits for the others for at most a second and leaves the rest to the end of
  /// the process. A static runtime that has ended refuses to spawn (errc::stopped): destructors of other statics may still ask.
  LAGOM_EXPORT ~runtime();
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;

  /// Runs f as a fiber while the calling thread waits; returns or rethrows what it does. From a fiber of any runtime: errc::would_deadlock
  /// (a worker must not be held). errc::stopped once stopped.
  template <class F>
  decltype(auto) run(F&& f) {
    using result = std::invoke_result_t<F&>;
    refuse_inside_fiber();
    if constexpr (std::is_void_v<result>) {
      wait_for(spawn([&f] { std::invoke(f); }));
    } else if constexpr (std::is_reference_v<result>) {
      std::remove_reference_t<result>* value = nullptr;
      wait_for(spawn([&] { value = std::addressof(std::invoke(f)); }));
      return static_cast<result>(*value);
    } else {
      std::optional<result> value;
      wait_for(spawn([&] { value.emplace(std::invoke(f)); }));
      return result(std::move(*value));
    }
  }

  /// Makes a new fiber runnable. From a fiber of this runtime it joins the caller's worker, from elsewhere the least loaded inbox. Throws
  /// std::system_error: errc::stopped after request_stop(), the system's when no stack can be had; std::invalid_argument for bad attributes;
  /// std::bad_alloc. Fibers that exist go on. O(log n) in the runnable fibers of a worker.
  template <class F, class... A>
    requires detail::not_attributes<F>
  fiber spawn(F&& f, A&&... a) {
    return fiber(detail::spawn_task(live_core(), nullptr, detail::ownership::joinable, std::forward<F>(f), std::forward<A>(a)...));
  }
  template <class F, class... A>
  fiber spawn(const attributes& attrs, F&& f, A&&... a) {
    return fiber(detail::spawn_task(live_core(), &attrs, detail::ownership::joinable, std::forward<F>(f), std::forward<A>(a)...));
  }
  template <class F, class... A>
    requires detail::not_attributes<F>
  void spawn_detached(F&& f, A&&... a) {
    detail::spawn_task(live_core(), nullptr, detail::ownership::detached, std::forward<F>(f), std::forward<A>(a)...);
  }
  template <class F, class... A>
  void spawn_detached(const attributes& attrs, F&& f, A&&... a) {
    detail::spawn_task(live_core(), &attrs, detail::ownership::detached, std::forward<F>(f), std::forward<A>(a)...);
  }
  /// As spawn_detached, but what f returns or throws goes to the future. Errors as spawn(). Any thread or fiber.
  template <class F, class... A>
    requires detail::not_attributes<F>
  auto async(F&& f, A&&... a) {
    return detail::spawn_async(live_core(), nullptr, std::forward<F>(f), std::forward<A>(a)...);
  }
  template <class F, class... A>
  auto async(const attributes& attrs, F&& f, A&&... a) {
    return detail::spawn_async(live_core(), &attrs, std::forward<F>(f), std::forward<A>(a)...);
  }
  /// spawn_detached that reports instead of throwing: false when stopped or out of resources. Never waits.
  template <class F>
  bool post(F&& f) {
    try {
      spawn_detached(std::forward<F>(f));
      return true;
    } catch (const std::system_error&) {
      return false;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  /// Asks every fiber to stop and refuses new ones. Any thread or fiber; returns at once.
  LAGOM_EXPORT void request_stop() noexcept;
  LAGOM_EXPORT std::stop_token get_stop_token() const;
  /// request_stop(), then waits until every fiber has ended.
  LAGOM_EXPORT stop_report stop();
  /// As stop(), but gives up after d and reports who is left.
  template <class Rep, class Period>
  stop_report stop_for(const std::chrono::duration<Rep, Period>& d) {
    return stop_until_ns(detail::expiry_after(d));
  }
  /// Waits until no fiber is left, cancels nobody. False when d has passed.
  template <class Rep, class Period>
  bool drain_for(const std::chrono::duration<Rep, Period>& d) {
    return drain_until_ns(detail::expiry_after(d));
  }

  LAGOM_EXPORT runtime_stats stats() const;
  /// Every fiber: id, name, state, wait reason, since when, and the stack of those that do not run (names of functions where
  /// the dynamic symbol table has them; docs/debugging.md). O(fibers), about 20 us each. Any thread; nobody is stopped.
  LAGOM_EXPORT void dump(std::ostream& out) const;
  LAGOM_EXPORT unsigned workers() const noexcept;
  /// Changes the number of workers while fibers run; from then on the number does not follow the CPUs any more. Workers that are
  /// not wanted any longer hand over what is runnable, lag and all, and go to sleep; who runs there leaves at its next preemption
  /// point; who may run nowhere else (attributes::affinity, pinned) stays and is served. std::invalid_argument for 0 or more than
  /// max(the number at the start, 2 x allowed CPUs, 16); std::system_error when a thread or a descriptor cannot be had. Any thread
  /// or fiber. O(fibers that move).
  LAGOM_EXPORT void set_workers(unsigned wanted);
  LAGOM_EXPORT void set_default_slice(std::chrono::nanoseconds slice);
  /// Gives the memory and the address space of stacks that are not in use back to the system. Each worker keeps up to 128 stacks at
  /// hand while it is busy; those follow when it next ends a fiber or runs out of work. An idle runtime gives the memory back unasked,
  /// and keeps the addresses. Any thread or fiber; does not wait for workers. O(free stacks), about 2 us for each with touched pages.
  LAGOM_EXPORT void trim();

  /// The runtime whose fiber is calling; nullptr on a plain thread.
  LAGOM_EXPORT static runtime* current() noexcept;

 private:
  friend detail::runtime_core& detail::core_of(const runtime& r) noexcept;
  LAGOM_EXPORT static void refuse_inside_fiber();
  detail::runtime_core& live_core() const {
    if (!core_) [[unlikely]] refuse_after_end();
    return *core_;
  }
  [[noreturn]] LAGOM_EXPORT static void refuse_after_end();
  static void wait_for(fiber f) { f.join(); }
  LAGOM_EXPORT stop_report stop_until_ns(std::int64_t expiry);
  LAGOM_EXPORT bool drain_until_ns(std::int64_t expiry);

  std::unique_ptr<detail::runtime_core, void (*)(detail::runtime_core*)> core_;
};

}  // namespace v0
}  // namespace lagom
