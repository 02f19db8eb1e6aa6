// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include <lagom/detail/spin_lock.hpp>

#include "constants.hpp"
#include "fiber/fiber.hpp"
#include "inbox.hpp"
#include "os/clock.hpp"
#include "os/poller.hpp"
#include "scheduler/run_queue.hpp"
#include "timer_queue.hpp"
#include "trace/histogram.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

class runtime_core;

/// How a fiber left its worker.
enum class departure : std::uint8_t { none, yielded, parked, exited };

/// One OS thread that runs fibers, and everything that goes with it. Four kinds of members, told apart below:
/// the worker's own; what the queue lock guards; what the worker publishes for others to glance at; what others write.
///
/// A switch goes straight from fiber to fiber: the one that leaves picks its successor on its own stack, jumps, and the
/// successor's first act is to finish the switch (settle()) for the one that left. Only when nothing is runnable does the
/// worker come back to its own stack, to the loop in run().
///
/// A fiber that has left may be made runnable, stolen and run elsewhere from the moment settle() has cleared `on_stack`;
/// not earlier: thieves pass over fibers whose stack is in use, and a ticket in state `armed` leaves the fiber to us.
class alignas(64) worker {
 public:
  worker(runtime_core& core, unsigned index, std::vector<unsigned> ring);
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;

  /// The body of the OS thread. Returns when the runtime ends.
  void run();

  // ---- For the fiber that runs here.
  void yield(fiber_block& f) noexcept;
  void park(fiber_block& f) noexcept;              // its ticket is armed
  [[noreturn]] void exit(fiber_block& f) noexcept;
  void checkpoint(fiber_block& f) noexcept;
  bool should_yield() noexcept;
  void preempt_if_asked() noexcept {
    if (resched_.load(std::memory_order_relaxed)) checkpoint(*running());  // our own flag
  }
  bool exception_in_flight() const noexcept { return thread_.exception_in_flight(); }
  void arm_timer(fiber_block& f, std::int64_t expiry, ticket who) noexcept;
  fiber_block* take_block();                       // may throw std::bad_alloc
  stack* take_stack(std::size_t size);             // may throw std::system_error
  void put_block(fiber_block& f) noexcept;
  void put_stack(stack* s) noexcept;
  void give_up_stacks() noexcept;

  // ---- For the worker's own thread.
  /// A fiber has become runnable by a wake-up that the running fiber, a timer or a descriptor of this worker caused.
  void enqueue_woken(fiber_block& f) noexcept;
  /// Puts a runnable fiber on this worker's queue. REQUIRES: state is runnable, no queue lock held.
  void enqueue(fiber_block& f, scheduler::joining why) noexcept;
  fiber_block* running() const noexcept { return running_.load(std::memory_order_relaxed); }  // ours; for others a hint
  std::int64_t now() const noexcept { return now_; }
  std::int64_t read_clock() noexcept { return now_ = clock_.now(); }

  // ---- For anybody.
  /// Makes a runnable fiber join here, and sees to it that somebody looks.
  void send(fiber_block& f) noexcept;
  void notify() noexcept { poller_.notify(); }
  /// Is more waiting here than is worth the cost of waking another worker?
  bool is_overloaded() const noexcept {
    // hints: the monitor corrects what a stale value misses
    return static_cast<std::int64_t>(waiting_.load(std::memory_order_relaxed)) * stint_.load(std::memory_order_relaxed) > notify_cost_ns;
  }
  std::uint32_t waiting() const noexcept { return waiting_.load(std::memory_order_relaxed); }  // a hint
  /// Changes whenever the worker comes by: a switch, or a preemption point that looked at the clock. A hint.
  std::uint64_t progress() const noexcept {
    return steps_.load(std::memory_order_relaxed) + looks_.load(std::memory_order_relaxed);  // hints
  }
  bool has_mail() const noexcept { return !inbox_.is_empty(); }
  timer_queue& timers() noexcept { return timers_; }
  os::poller& poller() noexcept { return poller_; }
  /// Takes fibers away from here that worker `thief` may run, at most half of those that wait. Returns how many.
  unsigned rob(unsigned thief, std::span<fiber_block*> loot, std::int64_t now) noexcept;
  /// In reserve: not wanted at present (runtime::set_workers, substitutes that have done their part). What it has moves on.
  bool in_reserve() const noexcept { return in_reserve_.load(std::memory_order_relaxed); }  // a hint: late is soon enough
  void set_reserve(bool reserve) noexcept;
  /// Held: its running fiber has not come by for long. Written by the monitor.
  bool is_held() const noexcept { return is_held_.load(std::memory_order_relaxed); }  // a hint
  void set_held(bool held) noexcept { is_held_.store(held, std::memory_order_relaxed); }  // a hint
  /// How little it is a place to bring work to; 0 is good.
  unsigned unfitness() const noexcept { return in_reserve() ? 2 : is_held() ? 1 : 0; }
  /// Sends everything that may go elsewhere to workers that are more fit. Returns how many. Any thread; see rescue.cpp.
  unsigned evacuate() noexcept;
  /// Looks at its descriptors in its place. Any thread.
  void poll_from_outside() noexcept;
  /// Asks a worker that was claimed while idle to look for work elsewhere.
  void make_searcher() noexcept {
    is_searcher_.store(true, std::memory_order_relaxed);  // published by the notification
    notify();
  }
  void set_default_slice(std::int64_t ns) noexcept;
  /// For a spawner on this worker's thread.
  std::uint64_t new_serial() noexcept;
  int thread_id() const noexcept { return thread_id_.load(std::memory_order_relaxed); }  // the kernel's; 0 before it runs
  struct snapshot {
    std::int64_t busy, idle;
    std::uint64_t switches, steals, migrations_in, wakeups, spawned, finished;
    std::size_t queued;
    std::int64_t longest_wait;
  };
  snapshot look(std::int64_t now) const noexcept;
  const trace::histogram& wake_latency() const noexcept { return latency_; }
  void count_spawn() noexcept { bump(spawned_); }
  std::uint64_t spawned() const noexcept { return spawned_.load(std::memory_order_acquire); }    // pairs with bump
  std::uint64_t finished() const noexcept { return finished_.load(std::memory_order_acquire); }  // pairs with bump

  runtime_core& core;
  const unsigned index;
  const std::vector<unsigned> ring;         // the others, nearest first; some may not exist yet

 private:
  // A counter written by this thread only.
  static void bump(std::atomic<std::uint64_t>& counter) noexcept {
    // release: pairs with spawned() and finished(); a plain store on x86.
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  // loop.cpp
  fiber_block* step() noexcept;
  void resume(fiber_block& f) noexcept;
  bool find_work() noexcept;
  bool spin() noexcept;
  void sleep() noexcept;
  void stop_searching() noexcept;
  bool has_reason_to_stay() noexcept;
  /// Timers and descriptors whose time has come.
  void serve(std::int64_t now) noexcept {
    if (timers_.next_expiry() <= now || next_poll_ <= now) serve_due(now);
  }
  void serve_due(std::int64_t now) noexcept;
  void poll_descriptors(std::int64_t timeout) noexcept;

  // switch.cpp
  void leave(fiber_block& f, departure how) noexcept;
  void jump(fiber_block& f, fiber_block* next, departure how) noexcept;
  void settle() noexcept;
  void bury(fiber_block& f) noexcept;
  void begin(fiber_block& f) noexcept;
  void empty_inbox(std::int64_t now) noexcept LAGOM_THREAD_SAFETY(requires_capability(queue_lock_));
  void publish_waiting() noexcept LAGOM_THREAD_SAFETY(requires_capability(queue_lock_));
  void end_stint(std::int64_t now) noexcept;
  void join(fiber_block& f, scheduler::joining why, std::int64_t now) noexcept LAGOM_THREAD_SAFETY(requires_capability(queue_lock_));
  static void enter(machine_context& self, machine_context& previous);
  void settle_parked(fiber_block& f) noexcept;
  bool may_look_later() const noexcept;

  std::uint64_t random() noexcept;
  bool scatter(fiber_block& f) noexcept;
  bool send_on(fiber_block& f) noexcept;
  void yield_away(fiber_block& f) noexcept;

  // steal.cpp
  bool steal() noexcept;
  void ask_for_help() noexcept {
    if (is_overloaded()) call_helper();
  }
  void call_helper() noexcept;

  // ---- The worker's own.
  std::atomic<fiber_block*> running_{nullptr};
  fiber_block* left_ = nullptr;             // who has just switched away, and how: settle() is due
  departure left_how_ = departure::none;
  std::int64_t now_ = 0;                    // of the current step
  std::int64_t stint_began_ = 0;
  std::int64_t look_again_ = 0;             // checkpoint(): no need to ask the queue before
  std::int64_t next_poll_ = 0;
  thread_state thread_;
  os::fast_clock clock_;
  machine_context loop_;
  fiber_block* blocks_ = nullptr;
  stack* stacks_ = nullptr;
  unsigned block_count_ = 0, stack_count_ = 0;
  std::uint32_t seen_trims_ = 0;            // stack_pool::trims() when the free stacks were last given up
  std::int64_t idle_average_ = 0;
  std::uint64_t random_;                    // chaos mode
  std::uint64_t next_serial_ = 0, serials_left_ = 0;

  // ---- Guarded by queue_lock_: taken by the worker once per step; thieves only try it.
  alignas(64) spin_lock queue_lock_;
  scheduler::run_queue queue_ LAGOM_THREAD_SAFETY(guarded_by(queue_lock_));

  // ---- Published by the worker, read by anybody as hints.
  alignas(64) std::atomic<std::uint32_t> waiting_{0};
  std::atomic<std::int64_t> stint_{notify_cost_ns};
  std::atomic<int> thread_id_{0};
  std::atomic<std::uint64_t> steps_{0}, looks_{0};
  std::atomic<std::uint64_t> spawned_{0}, finished_{0}, steals_{0}, migrations_in_{0}, wakeups_{0};
  std::atomic<std::int64_t> idle_ns_{0}, idle_since_{0}, started_{0}, longest_wait_{0};
  timer_queue timers_;
  trace::histogram latency_;

  // ---- Written by others.
  alignas(64) inbox<fiber_block> inbox_;
  std::atomic<bool> resched_{false};        // ask the queue at the next preemption point
  std::atomic<bool> is_searcher_{false};    // counted in runtime_core::searchers
  std::atomic<bool> is_restless_{false};    // fibers that give way go elsewhere: chaos mode, or in reserve
  std::atomic<bool> in_reserve_{false};
  std::atomic<bool> is_held_{false};
  os::poller poller_;

  friend class runtime_core;
};

/// Ends a wait of the calling fiber whose ticket is used; gives the cause.
wake end_armed_wait(fiber_block& f) noexcept;

/// A fiber inside no_suspend was about to give its worker away: our user's bug. Aborts.
[[noreturn]] void refuse_to_leave(const fiber_block& f, const char* why) noexcept;

/// The calling thread's worker, nullptr on any other thread. Out of line on purpose, see current_fiber().
worker* current_worker() noexcept;

}  // namespace detail
}  // namespace v0
}  // namespace lagom
