// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>

#include <boost/intrusive/set_hook.hpp>

#include <lagom/attributes.hpp>
#include <lagom/detail/spin_lock.hpp>
#include <lagom/detail/task.hpp>
#include <lagom/detail/wait_queue.hpp>
#include <lagom/fiber.hpp>

#include "context.hpp"
#include "os/assert.hpp"
#include "os/lock_watch.hpp"
#include "park.hpp"
#include "scheduler/clamp.hpp"
#include "scheduler/run_queue.hpp"
#include "scheduler/seating.hpp"
#include "scheduler/utilization.hpp"
#include "stack.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

class worker;
class runtime_core;
struct local_values;

/// Who owns what in each state. `lagom::fiber_state` is what users see of it.
///
///   state     stack owned by             on which queue
///   free      nobody (none attached)     a worker's or the global list of free blocks
///   created   its spawner                none
///   runnable  nobody runs on it (*)      one run queue or one inbox
///   running   the worker that runs it    none (it is that run queue's current one)
///   parked    nobody runs on it (*)      none; the ticket holder of the current epoch may make it runnable
///   exited    its last worker, until it has switched away; then nobody: the stack is gone, the block waits for its handle
///
/// (*) Just after a switch the worker may still be on the stack: `on_stack` is true until it has left. A fiber that has armed its
/// ticket is still `running` for its worker; what makes it `parked` is the worker's CAS after the switch (park.hpp).
enum class block_state : std::uint8_t { free, created, runnable, running, parked, exited };

/// A timer: fires by using a ticket. Lives in the block of the fiber that waits. The lock of the queue it is in guards it;
/// `home` belongs to the fiber itself.
struct timer_node : boost::intrusive::set_base_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>> {
  std::int64_t expiry = never;
  ticket who{};
  worker* home = nullptr;  // whose queue
  bool is_armed = false;
};

/// Makes a request to stop that comes through a fiber's std::stop_source one to the fiber.
struct stop_relay {
  fiber_block* fiber;
  runtime_core* core;  // the fiber's then: the block may be another's by now
  void operator()() const noexcept;
};

/// A letter to a worker: look at this fiber.
struct change_notice {
  explicit change_notice(fiber_block& f) noexcept : of(f) {}
  change_notice* next = nullptr;  // in a worker's list
  fiber_block& of;
};

/// A change of attributes on its way to whoever owns the fiber. worker/changes.cpp has the protocol.
struct attribute_update {
  explicit attribute_update(fiber_block& f) noexcept : notice(f) {}

  spin_lock lock;                            // guards what follows, and the bit change_is_due
  // What the fiber is to have.
  scheduler::policy kind = scheduler::policy::normal;
  scheduler::weight share{};
  std::int64_t slice = 0;                    // 0: default mode
  scheduler::clamp_range clamp{};
  bool is_pinned = false;
  bool has_affinity = false;                 // the next one is new
  std::unique_ptr<bool[]> allowed;           // afterwards the old one
  change_notice notice;
  worker* sent_to = nullptr;                 // who has the notice in its list, or is about to get it
};

/// The control block of a fiber. Type-stable: blocks are recycled, never freed, so that stale tickets can be looked at.
/// What a switch touches lies in the first four cache lines: the two of the entity, and the two after it.
struct alignas(64) fiber_block : scheduler::entity, parker {
  fiber_block() noexcept : parker(holder::fiber), update(*this) {}

  // ---- used at every switch, by the worker that runs it
  std::atomic<worker*> home{nullptr};        // last worker that ran or queued it
  std::atomic<block_state> state{block_state::free};
  std::atomic<bool> on_stack{false};         // a worker is still on the stack
  std::atomic<bool> stop_flag{false};
  std::atomic<wait_reason> reason{wait_reason::none};
  stoppable may_stop = stoppable::no;        // of the wait in progress; goes into the word when it is parked
  /// What most fibers never have: one test tells.
  static constexpr std::uint8_t change_is_due = 1;  // `update` is not in effect yet
  static constexpr std::uint8_t may_be_misplaced = 2;  // its affinity has changed: it looks whether it may run where it runs
  static constexpr std::uint8_t is_clamped = 4;     // `clamp` is not neutral
  std::atomic<std::uint8_t> rare{0};
  bool was_woken = false;                    // runnable by a wake-up: its wait counts as wake latency
  bool is_bound = false;                     // queued, and may not run everywhere: counted in its worker's queue
  scheduler::joining arrival = scheduler::joining::spawned;  // while in an inbox: what it comes as
  std::uint32_t pin_count = 0;               // > 0: stays on its worker
  std::uint16_t stay_count = 0;              // > 0: inside no_suspend. Its own, as the next one
  std::uint16_t no_stop_count = 0;           // > 0: inside uninterruptible
  std::atomic<std::int64_t> state_since{0};  // ns, when it became runnable, running or parked
  std::int64_t usual_stint = 0;              // ns, moving average of how long it runs at a time; 0: has not run
  std::atomic<std::uint64_t> usage{0};       // scheduler::utilization, packed; written by the owner of the state
  // Statistics: written by the owner of the state.
  std::atomic<std::int64_t> wait_time{0}, wait_max{0}, cpu_time{0};
  std::atomic<std::uint64_t> switches_voluntary{0};
  machine_context machine;                   // its hot part first
  fiber_block* next = nullptr;               // in an inbox or a free list
  std::atomic<stack*> memory{nullptr};       // written by the owner of the state
  std::atomic<std::uint64_t> switches_involuntary{0}, migrations{0};
  std::atomic<std::int64_t> usage_counted{0};  // the other half of usage
  std::uint32_t recent_worker = scheduler::no_worker;  // where it was queued before `home`
  unsigned usual_usage = 0;                  // its utilization when it went to sleep, smoothed; where CPUs differ in speed

  // ---- life
  std::atomic<runtime_core*> core{nullptr};
  std::uint64_t serial = 0;                  // fiber::id
  std::uint32_t forks = 0;                   // os::fork_count() when it was spawned
  std::atomic<std::uint32_t> references{0};
  void (*run)(void*, std::stop_token (*)()) = nullptr;
  void* task = nullptr;
  timer_node timer;
  os::held_locks locks;                      // checking builds
  local_values* locals = nullptr;            // fiber_local; its own, gone before the fiber has exited

  std::atomic<std::size_t> stack_used{0};    // when it ended; runtime_options::measure_stacks

  // ---- joining; guarded by end_lock
  spin_lock end_lock;
  bool ended = false;
  std::atomic<bool> is_detached{false};      // written under the lock; its fiber looks at it without, early
  wait_queue joiners;
  std::exception_ptr failure;

  // ---- rarely used; guarded by end_lock
  std::optional<std::stop_source> stop_source;
  std::unique_ptr<std::stop_callback<stop_relay>> relay;  // made and destroyed outside the lock
  std::unique_ptr<lagom::attributes> attrs;  // null: the defaults

  // ---- rarely used; the owner's, whoever that is
  std::unique_ptr<bool[]> allowed;           // by worker index; null: all
  scheduler::clamp_range clamp{};            // what it asks for
  scheduler::clamp_range counted{};          // what its run queue has counted it with; neutral: it has not
  bool is_pinned = false;                    // by attributes: one of pin_count
  attribute_update update;
};

/// Adds to a counter that has one writer at a time.
template <class T>
void add_to(std::atomic<T>& counter, std::type_identity_t<T> n) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);  // one writer; statistics
}

/// How much of a CPU it uses. Two words that are read one after the other: near enough for whoever is not the owner.
inline scheduler::utilization usage_of(const fiber_block& f) noexcept {
  return scheduler::utilization::unpack(f.usage.load(std::memory_order_relaxed), f.usage_counted.load(std::memory_order_relaxed));  // statistics
}
inline void set_usage(fiber_block& f, const scheduler::utilization& u) noexcept {
  f.usage.store(u.packed(), std::memory_order_relaxed);             // statistics
  f.usage_counted.store(u.counted(), std::memory_order_relaxed);    // the same
}

/// Changes the state; asserts what it was. The only writer of `state`.
inline void transition(fiber_block& f, block_state from, block_state to) noexcept {
  // relaxed: the state says who owns the fiber, it does not hand it over; the word, the queue lock and the inbox do.
  LAGOM_ASSERT(f.state.load(std::memory_order_relaxed) == from);
  f.state.store(to, std::memory_order_relaxed);
}
fiber_state visible(block_state s) noexcept;

inline fiber_block& block_of(scheduler::entity& e) noexcept { return static_cast<fiber_block&>(e); }

/// Back to what a fiber without a past is. REQUIRES: nobody else has the block.
void reset_block(fiber_block& f) noexcept;

/// Takes a block from the process-wide store, or makes a slab of them. Throws std::bad_alloc.
fiber_block* acquire_block();
void release_block(fiber_block* f) noexcept;
/// In a child of fork(): the lock's owner is gone, and so is what it did.
void forget_free_blocks() noexcept;

/// Calls visit(block) for every block that was ever made, free ones too. Blocks may change meanwhile. Any thread.
void for_each_block(void (*visit)(fiber_block&, void*), void* argument);

/// Where the blocks are, for debuggers: the head of the list of slabs, and what a slab consists of.
struct slab_layout {
  const void* head;  // a pointer to a slab
  std::size_t blocks, blocks_at, next_at;
};
slab_layout layout_of_slabs() noexcept;

/// Drops one reference; the last one makes the block free. Implemented by worker/, which keeps free blocks near.
void drop_reference(fiber_block& f) noexcept;

/// Marks it ended, wakes its joiners, drops the reference that running was.
void end_fiber(fiber_block& f) noexcept;

/// Destroys its fiber_local values. On the fiber. REQUIRES: it has some.
void end_locals(fiber_block& f) noexcept;

/// Sets the stop flag, fires the stop source, ends a stoppable wait. True for the first request. Any thread or fiber.
/// Does nothing if the block is not a fiber of `core` any more.
bool request_stop(fiber_block& f, const runtime_core* core) noexcept;
std::stop_source stop_source_of(fiber_block& f);
/// The same for somebody who may request a stop with it.
std::stop_source relaying_source_of(fiber_block& f);

attributes attributes_of(fiber_block& f);
/// fiber::set_attributes and fiber::change.
void set_attributes(fiber_block& f, const attributes& a);
void change_attributes(fiber_block& f, const attribute_change& c);
fiber_stats stats_of(fiber_block& f);

/// The calling fiber, nullptr on a plain thread. Out of line on purpose: a fiber may resume on another OS thread, and compilers keep
/// the address of a thread-local across calls they can see through.
fiber_block* current_fiber() noexcept;

}  // namespace detail
}  // namespace v0
}  // namespace lagom
