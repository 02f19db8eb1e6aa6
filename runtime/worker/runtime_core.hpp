// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <lagom/runtime.hpp>

#include "blocking_pool.hpp"
#include "fiber/fiber.hpp"
#include "fiber/stack.hpp"
#include "idle_workers.hpp"
#include "io/descriptors.hpp"
#include "monitor.hpp"
#include "os/fork.hpp"
#include "os/thread.hpp"
#include "published_words.hpp"
#include "quit_dumper.hpp"
#include "scheduler/features.hpp"
#include "topology/topology.hpp"
#include "seat_plan.hpp"
#include "wake_cost.hpp"
#include "worker.hpp"
#include "worker_list.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

/// How many workers the CPUs and the quota call for.
unsigned workers_for(std::size_t cpus, std::optional<double> quota) noexcept;

/// What the workers of one runtime share. Built before them, outlives them.
///
/// Order of the start: options checked, topology read, workers made, threads started, monitor started. The end is the mirror:
/// no fiber is left, monitor stopped, workers told and joined.
class runtime_core {
 public:
  runtime_core(runtime& owner, runtime_options checked, scheduler::features checked_knobs);
  ~runtime_core();
  runtime_core(const runtime_core&) = delete;
  runtime_core& operator=(const runtime_core&) = delete;

  void start();                               // throws std::system_error; nothing is left running then
  void shut_down() noexcept;                  // waits until every fiber has ended
  /// The destructor of a static runtime that one of its own fibers runs in std::exit(): stops the others, waits a little. Aborts
  /// when the process is not exiting: the fiber would wait for itself.
  void abandon_at_exit() noexcept;

  // ---- Spawning
  prepared prepare(const attributes* attrs, std::size_t size, std::size_t align, ownership who);
  void commit(fiber_block& f) noexcept;
  void abandon(fiber_block& f) noexcept;
  void run_body(fiber_block& f);              // on the fiber
  void report_uncaught(fiber_block& f, std::exception_ptr failure) noexcept;

  // ---- Ending
  void request_stop() noexcept;
  bool wait_until_empty(std::int64_t expiry);
  /// Called when a fiber has been counted as ended, and again by each worker that goes to sleep. The first call may come too
  /// early: a worker's count is a plain store, which others may see after its look at the one who waits. The second cannot:
  /// between count and look is the announcement in `idle`, at which is_empty() looks before it counts; see tests/model/.
  void fiber_ended() noexcept {
    // seq_cst: after the announcement; pairs with wait_until_empty(), which says that it waits and then counts.
    if (someone_waits_for_end.load(std::memory_order_seq_cst)) announce_end();
  }
  std::uint64_t live() const noexcept;

  // ---- Looking
  std::vector<fiber_info> list_fibers() const;
  void dump(std::ostream& out) const;
  runtime_stats stats() const;
  void log(std::string_view line) const;
  /// Throws errc::forked in a child of the process that made this runtime.
  void check_process(const char* what) const;
  bool is_parents() const noexcept { return forks != os::fork_count(); }
  void note_stack_use(fiber_block& f) noexcept;  // of one that has ended
  void report_deadlock();
  static void dump_all(int fd) noexcept;      // every runtime's fibers, while the process dies
  static bool describe_overflow(void* address, int fd) noexcept;

  // ---- Workers
  /// By index. Null: all. Throws std::invalid_argument if no worker is on one of the CPUs.
  std::unique_ptr<bool[]> workers_on(const cpu_set& affinity) const;
  /// Before the first fiber with a clamp. May throw std::bad_alloc.
  void enable_clamps();
  /// Whether clamps ask for more workers than are awake: then work is placed side by side.
  void count_awake(std::int64_t now) noexcept;
  /// Finds a worker for a runnable fiber that no worker of ours has in hand, and sends it there.
  void dispatch(fiber_block& f) noexcept;
  std::pair<worker*, worker::claimed> select(const fiber_block& f, const worker* here, std::int64_t usual_stint,
                                             std::span<std::uint64_t> view) noexcept;
  worker& least_waiting(const fiber_block* f) noexcept;
  /// Asks the nearest sleeping worker to come and look for work. False: none sleeps.
  bool call_helper_for(worker& w) noexcept;
  void call(unsigned claimed_seat) noexcept;
  /// May f go to a worker more fit than `here`?
  bool has_a_better_place(const fiber_block& f, const worker& here) const noexcept;
  unsigned wanted_workers() const noexcept { return wanted_.load(std::memory_order_relaxed); }  // a number of its own
  /// Any thread or fiber. Throws std::invalid_argument, std::system_error; then nothing has changed.
  void set_workers(unsigned wanted);
  /// Makes as many workers as the CPUs and the quota of today call for, if the user left that to us.
  void follow_cpus() noexcept;
  /// A worker more than wanted, while others are held. False if there can be none.
  bool call_substitute() noexcept;
  void dismiss_substitute() noexcept;
  void report_stuck(const worker& w, std::int64_t held_ns);
  void worker_started(worker& w);
  void worker_stopped(worker& w) noexcept;
  bool try_search(std::atomic<bool>& mark) noexcept;

  runtime& owner;
  const std::uint32_t forks = os::fork_count();
  const runtime_options options;
  const scheduler::features knobs;
  topology::machine machine;
  topology::worker_plan plan;                 // of the workers we start with
  topology::worker_plan whole_plan;           // of as many as there may ever be; begins as `plan` does
  stack_pool stacks;
  descriptor_table descriptors;
  worker_list workers;
  seat_plan seats;                            // of `whole_plan`
  idle_workers idle;                          // by seat
  published_words published;
  wake_cost wake_ups;
  monitor overseer;
  quit_dumper dumper;
  blocking_pool offloads;
  bool may_spin = false;
  const bool forwards_clamps;                 // runtime_options::forward_clamps, if the system lets us
  const bool chaos;                           // runtime_options::chaos_seed: perturb everything that may be perturbed
  pin pin_used = pin::none;
  std::size_t default_stack = 0;              // whole pages

  alignas(64) std::atomic<std::uint32_t> searchers{0};
  std::atomic<bool> packs{false};             // see count_awake()
  std::atomic<bool> terminating{false};       // the workers' loops end
  std::atomic<bool> stopping{false};          // no new fibers
  std::atomic<std::uint32_t> someone_waits_for_end{0};
  std::atomic<std::uint32_t> ended_signal{0};
  std::atomic<std::uint64_t> uncaught{0}, spawned_outside{0}, abandoned{0};
  std::atomic<std::size_t> stack_used_max{0};
  std::atomic<std::uint32_t> next_worker{0};
  std::atomic<std::uint32_t> visitors{0};     // threads of others inside worker::send()
  std::stop_source stop_source;

 private:
  void announce_end() noexcept;
  bool is_empty() const noexcept;
  void check_attributes(const attributes& a) const;
  void apply_attributes(fiber_block& f, const attributes& a);
  void copy_words(const fiber_block* f, std::span<std::uint64_t> to) const noexcept;
  std::size_t whole_stack(std::size_t usable, std::size_t callable) const noexcept;
  void terminate() noexcept;
  void watch_for_exit() noexcept;
  std::vector<unsigned> ring_of(std::size_t index) const;
  void add_worker();
  void change_workers(unsigned wanted);

  std::atomic<unsigned> wanted_{0};
  std::atomic<bool> follows_cpus_{true};
  std::atomic<bool> has_clamps_{false};
  std::mutex staff_lock_;                     // guards the three below, and who is in reserve
  std::vector<os::native_thread> threads_;
  bool is_running_ = false;                   // threads_ may grow
  worker* substitute_ = nullptr;
  std::atomic<bool> knows_of_exit_{false};    // the process's exit is noticed before the runtime's destructor
};

}  // namespace detail
}  // namespace v0
}  // namespace lagom
