// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <lagom/detail/spin_lock.hpp>

#include "clamp_messenger.hpp"
#include "constants.hpp"
#include "fiber/fiber.hpp"
#include "inbox.hpp"
#include "os/clock.hpp"
#include "os/poller.hpp"
#include "published_words.hpp"
#include "scheduler/balancing.hpp"
#include "scheduler/clamp.hpp"
#include "scheduler/run_queue.hpp"
#include "scheduler/utilization.hpp"
#include "scheduler/worker_selection.hpp"
#include "timer_queue.hpp"
#include "trace/histogram.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

class runtime_core;

/// Has its affinity changed since it last looked where it is?
inline bool may_be_misplaced(const fiber_block& f) noexcept {
  return f.rare.load(std::memory_order_relaxed) & fiber_block::may_be_misplaced;  // seen late: it looks again
}

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
  /// The running fiber has spawned it.
  void enqueue_spawned(fiber_block& f) noexcept;
  /// Puts a runnable fiber on this worker's queue. REQUIRES: state is runnable, no queue lock held.
  void enqueue(fiber_block& f, scheduler::joining why) noexcept;
  /// Takes the change that waits at f along, if f is queued or running here.
  void change_here(fiber_block& f) noexcept;
  /// Where f, on its own stack, finds itself after it has given way: it goes on where it may, if that is not here.
  static void look_around(fiber_block& f) noexcept {
    if (may_be_misplaced(f)) [[unlikely]] f.home.load(std::memory_order_relaxed)->move_if_misplaced(f);  // its own
  }
  fiber_block* running() const noexcept { return running_.load(std::memory_order_relaxed); }  // ours; for others a hint
  std::int64_t now() const noexcept { return now_; }
  std::int64_t read_clock() noexcept { return now_ = clock_.now(); }

  // ---- For anybody.
  /// Makes a runnable fiber join here, and sees to it that somebody looks.
  enum class claimed : std::uint8_t { no, yes };  // yes: the caller has claimed this worker's sleep
  void send(fiber_block& f, claimed sleep = claimed::no) noexcept;
  void notify() noexcept { poller_.notify(); }
  /// The same, of one whose sleep the caller has claimed: how long it takes to get up is measured.
  void wake_up(std::int64_t now) noexcept {
    notified_at_.store(now, std::memory_order_relaxed);  // published by the notification
    notify();
  }
  /// More waits here than is worth the cost of waking another worker, or did lately. A hint, as all of these.
  bool is_overloaded() const noexcept { return is_overloaded_.load(std::memory_order_relaxed); }  // a hint
  /// The change that waits at f is taken here, or passed on. Null: the notice is here already. changes.cpp
  void accept(change_notice* n) noexcept;
  void drop_notices() noexcept;
  /// Before the first fiber with a clamp. May throw std::bad_alloc.
  void make_tally();
  /// What its runnable fibers ask for together.
  scheduler::clamp_range clamps() noexcept;
  /// Tells the system what they ask for, if it is time. Any thread.
  void forward_clamps(std::int64_t now, const clamp_messenger::log_line& log) noexcept;
  std::uint64_t changes_taken() const noexcept { return changes_taken_.load(std::memory_order_relaxed); }  // statistics
  std::uint32_t waiting() const noexcept { return waiting_.load(std::memory_order_relaxed); }  // a hint
  /// How many of those queued here may not run everywhere.
  std::uint32_t bound() const noexcept { return bound_.load(std::memory_order_relaxed); }  // a hint
  /// How long somebody who joined now would wait, about; `forever` for the idle class behind others.
  std::int64_t expected_wait(bool is_idle_class) const noexcept {
    if (is_idle_class && !is_idle_only_.load(std::memory_order_relaxed)) return scheduler::forever;  // a hint
    return (waiting() + std::int64_t{running() != nullptr}) * stint_.load(std::memory_order_relaxed);  // a hint
  }
  /// A sleeping worker that may run one of those who wait here; any thread. idle_workers::none: there is none.
  unsigned helper_for_bound() noexcept;
  /// Changes whenever the worker comes by: a switch, or a preemption point that looked at the clock. A hint.
  std::uint64_t progress() const noexcept {
    return steps_.load(std::memory_order_relaxed) + looks_.load(std::memory_order_relaxed);  // hints
  }
  bool has_mail() const noexcept { return !inbox_.is_empty(); }
  timer_queue& timers() noexcept { return timers_; }
  os::poller& poller() noexcept { return poller_; }
  /// What a thief asks for.
  struct theft {
    unsigned thief;
    std::uint8_t distance;
    std::int64_t guard;      // nobody who became runnable more recently
    bool takes_idle_class;
    std::int64_t now;
  };
  struct haul {
    unsigned taken;
    bool try_again;  // there is more, that was too fresh; or nobody could look just now
  };
  /// Takes fibers away from here that the thief may run, at most half of those that wait.
  haul rob(const theft& what, std::span<fiber_block*> loot) noexcept;
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
  void make_searcher(std::int64_t now) noexcept {
    is_searcher_.store(true, std::memory_order_relaxed);  // published by the notification
    wake_up(now);
  }
  /// Let the running fiber's next preemption point look around.
  void ask_to_look() noexcept { resched_.store(true, std::memory_order_relaxed); }  // a hint
  void set_default_slice(std::int64_t ns) noexcept;
  /// For a spawner on this worker's thread.
  std::uint64_t new_serial() noexcept;
  int thread_id() const noexcept { return thread_id_.load(std::memory_order_relaxed); }  // the kernel's; 0 before it runs
  struct snapshot {
    std::int64_t busy, idle;
    std::uint64_t switches, steals, migrations_in, wakeups, spawned, finished;
    std::size_t queued;
    std::int64_t longest_wait;
    unsigned util;
  };
  snapshot look(std::int64_t now) const noexcept;
  const trace::histogram& wake_latency() const noexcept { return latency_; }
  void count_spawn() noexcept { bump(spawned_); }
  std::uint64_t spawned() const noexcept { return spawned_.load(std::memory_order_acquire); }    // pairs with bump
  std::uint64_t finished() const noexcept { return finished_.load(std::memory_order_acquire); }  // pairs with bump

  runtime_core& core;
  const unsigned index;
  const std::uint32_t seat;                 // its bit in words; see scheduler/seating.hpp
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

  // placing.cpp
  void place(fiber_block& f, scheduler::joining why) noexcept;
  /// The short form of the question which worker is to run f: this one, without looking any further.
  bool keeps(const fiber_block& f, std::int64_t usual_stint) const noexcept;
  bool may_run_here(const fiber_block& f) const noexcept { return !f.allowed || f.allowed[index]; }

  // switch.cpp
  void leave(fiber_block& f, departure how) noexcept;
  void jump(fiber_block& f, fiber_block* next, departure how) noexcept;
  void settle() noexcept;
  void bury(fiber_block& f) noexcept;
  void begin(fiber_block& f) noexcept;
  void empty_inbox(std::int64_t now) noexcept LAGOM_THREAD_SAFETY(requires_capability(queue_lock_));
  void publish_waiting() noexcept LAGOM_THREAD_SAFETY(requires_capability(queue_lock_));
  bool note_overload() noexcept;
  void set_overloaded(bool on) noexcept;
  void publish_idle_only(bool idle_only) noexcept LAGOM_THREAD_SAFETY(requires_capability(queue_lock_));
  void end_stint(fiber_block& f, std::int64_t now) noexcept;
  void admit(fiber_block* f, std::int64_t now) noexcept LAGOM_THREAD_SAFETY(requires_capability(queue_lock_));
  void join(fiber_block& f, scheduler::joining why, std::int64_t now) noexcept LAGOM_THREAD_SAFETY(requires_capability(queue_lock_)) {
    // relaxed: if home is ours already, whoever changes f comes by our queue lock; else see changes.cpp.
    const std::uint8_t rare = f.rare.load(std::memory_order_relaxed);
    if (f.home.load(std::memory_order_relaxed) != this || (rare & ~fiber_block::is_clamped) != 0) [[unlikely]] {
      arrive(f, now);
    } else if (rare != 0) {
      join_tally(f);
    }
    if (f.pin_count != 0 || f.allowed) [[unlikely]] bind(f);
    f.was_woken |= why == scheduler::joining::woken;
    // relaxed: looked at by the worker's preemption points, which then take the lock.
    if (queue_.enqueue(f, why, now)) resched_.store(true, std::memory_order_relaxed);
  }
  /// The other end of join(): f does not want to run here any more, or is taken elsewhere. Before it is dequeued.
  void depart(fiber_block& f) noexcept LAGOM_THREAD_SAFETY(requires_capability(queue_lock_)) {
    if (f.is_bound) [[unlikely]] unbind(f);
    if (f.rare.load(std::memory_order_relaxed) & fiber_block::is_clamped) leave_tally(f);  // the owner's
  }
  void bind(fiber_block& f) noexcept LAGOM_THREAD_SAFETY(requires_capability(queue_lock_));
  void unbind(fiber_block& f) noexcept LAGOM_THREAD_SAFETY(requires_capability(queue_lock_));
  static void enter(machine_context& self, machine_context& previous);
  void settle_parked(fiber_block& f) noexcept;
  bool may_look_later() const noexcept;

  std::uint64_t random() noexcept;
  bool scatter(fiber_block& f) noexcept;
  bool send_on(fiber_block& f) noexcept;
  void yield_away(fiber_block& f) noexcept;

  // changes.cpp
  void move_if_misplaced(fiber_block& f) noexcept;
  void take_changes() noexcept;
  change_notice* pass_on(change_notice* all) noexcept;
  void take_change(fiber_block& f, std::int64_t now) noexcept LAGOM_THREAD_SAFETY(requires_capability(queue_lock_));
  void apply_change(fiber_block& f, std::int64_t now) noexcept LAGOM_THREAD_SAFETY(requires_capability(queue_lock_));
  void arrive(fiber_block& f, std::int64_t now) noexcept LAGOM_THREAD_SAFETY(requires_capability(queue_lock_));
  /// f's clamps count from here to leave_tally(). REQUIRES: they do not yet; not neutral.
  void join_tally(fiber_block& f) noexcept LAGOM_THREAD_SAFETY(requires_capability(queue_lock_)) {
    tally_->add(f.clamp);
    f.counted = f.clamp;
  }
  void leave_tally(fiber_block& f) noexcept LAGOM_THREAD_SAFETY(requires_capability(queue_lock_)) {
    if (f.counted.is_neutral()) return;
    tally_->remove(f.counted);
    f.counted = {};
  }

  // steal.cpp
  enum class loot_kind : std::uint8_t { normal_only, anything };
  bool steal(loot_kind what) noexcept;
  haul rob_one(worker& victim, const theft& what) noexcept;
  bool is_worth_robbing(const worker& victim) const noexcept;
  void ask_for_help() noexcept {
    if (note_overload()) call_helper();
  }
  void call_helper() noexcept;

  // evening.cpp
  void even_out(std::int64_t now) noexcept;
  bool pull_from(worker& other, std::int64_t now) noexcept;
  bool wants_faster_cpu(fiber_block& f, std::int64_t now) noexcept;
  void fold_usage(std::int64_t now) noexcept;
  // Of a fiber that this worker has just charged.
  static void note_usage(fiber_block& f, std::int64_t now, departure how) noexcept;

  // ---- The worker's own.
  std::atomic<fiber_block*> running_{nullptr};
  fiber_block* left_ = nullptr;             // who has just switched away, and how: settle() is due
  departure left_how_ = departure::none;
  std::int64_t now_ = 0;                    // of the current step
  std::int64_t stint_began_ = 0;
  std::int64_t look_again_ = 0;             // checkpoint(): no need to ask the queue before
  std::int64_t next_poll_ = 0, next_even_out_ = 0;
  thread_state thread_;
  os::fast_clock clock_;
  machine_context loop_;
  fiber_block* blocks_ = nullptr;
  stack* stacks_ = nullptr;
  unsigned block_count_ = 0, stack_count_ = 0;
  std::uint32_t seen_trims_ = 0;            // stack_pool::trims() when the free stacks were last given up
  std::int64_t idle_average_ = 0;
  std::uint64_t random_;
  unsigned failed_thefts_ = 0;              // rounds without loot since the last success
  bool saw_unmovable_ = false;              // what the last round met could not be taken, and that will not change
  bool looks_for_faster_ = false;           // is the running fiber on too slow a CPU? Asked now and then
  scheduler::theft_gate far_thefts_;        // whether looking beyond the last-level cache pays
  std::vector<std::uint64_t> view_;         // copies of published words, while a worker is chosen
  std::uint64_t next_serial_ = 0, serials_left_ = 0;

  // ---- Guarded by queue_lock_: taken by the worker once per step; thieves only try it.
  alignas(64) spin_lock queue_lock_;
  scheduler::run_queue queue_ LAGOM_THREAD_SAFETY(guarded_by(queue_lock_));
  std::unique_ptr<scheduler::clamp_tally> tally_ LAGOM_THREAD_SAFETY(guarded_by(queue_lock_));  // null: no clamps yet

  // ---- Published by the worker, read by anybody as hints.
  alignas(64) std::atomic<std::uint32_t> waiting_{0};
  std::atomic<std::int64_t> stint_{wake_cost_start_ns};
  std::atomic<bool> is_overloaded_{false}, is_idle_only_{false};
  std::atomic<bool> looks_for_normal_{false};  // before the idle class goes on: one look for better work
  std::atomic<std::uint32_t> bound_{0};     // of those queued, who may not run everywhere; written under the queue lock
  std::atomic<std::uint64_t> usage_{0};     // scheduler::utilization, packed
  std::atomic<std::int64_t> usage_counted_{0};
  std::atomic<int> thread_id_{0};
  std::atomic<std::uint64_t> steps_{0}, looks_{0};
  std::atomic<std::uint64_t> spawned_{0}, finished_{0}, steals_{0}, migrations_in_{0}, wakeups_{0};
  std::atomic<std::uint64_t> changes_taken_{0};
  clamp_messenger messenger_;
  std::atomic<std::int64_t> idle_ns_{0}, idle_since_{0}, started_{0}, longest_wait_{0};
  timer_queue timers_;
  trace::histogram latency_;

  // ---- Written by others.
  alignas(64) inbox<fiber_block> inbox_;
  inbox<change_notice> changes_;
  std::atomic<bool> resched_{false};        // ask the queue at the next preemption point
  std::atomic<bool> is_searcher_{false};    // counted in runtime_core::searchers
  std::atomic<bool> is_restless_{false};    // fibers that give way go elsewhere: chaos mode, or in reserve
  std::atomic<bool> in_reserve_{false};
  std::atomic<bool> is_held_{false};
  std::atomic<std::int64_t> notified_at_{0};  // by whoever claimed its sleep; 0: nobody
  os::poller poller_;

  friend class runtime_core;
};

/// Ends a wait of the calling fiber whose ticket is used; gives the cause.
wake end_armed_wait(fiber_block& f) noexcept;

/// The waker's part of a change of attributes: f's affinity. REQUIRES: the caller owns f, which is on no queue.
void take_affinity(fiber_block& f) noexcept;

/// A fiber inside no_suspend was about to give its worker away: our user's bug. Aborts.
[[noreturn]] void refuse_to_leave(const fiber_block& f, const char* why) noexcept;

/// The calling thread's worker, nullptr on any other thread. Out of line on purpose, see current_fiber().
worker* current_worker() noexcept;

}  // namespace detail
}  // namespace v0
}  // namespace lagom
