// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <array>
#include <utility>

#include "os/thread.hpp"
#include "after_fork.hpp"
#include "runtime_core.hpp"
#include "worker.hpp"

// The worker's own flow: what it does when no fiber runs.
namespace lagom {
inline namespace v0 {
namespace detail {

namespace {
// initial-exec, and only read through the function below: see fiber/fiber.hpp, current_fiber().
thread_local worker* this_worker = nullptr;
}  // namespace

LAGOM_OUT_OF_LINE worker* current_worker() noexcept {
  worker* w = this_worker;
  asm volatile("" : "+r"(w));
  return w;
}

void forget_worker() noexcept { this_worker = nullptr; }

fiber_block* current_fiber() noexcept {
  worker* w = current_worker();
  return w ? w->running() : nullptr;
}

worker::worker(runtime_core& c, unsigned i, std::vector<unsigned> others)
    : core(c), index(i), seat(c.seats.seat_of(i)), ring(std::move(others)), random_((c.options.chaos_seed | 1) * 0x9e3779b97f4a7c15u + i), queue_(c.knobs), is_restless_(c.chaos) {
  view_.resize(3 * core.idle.words());
}

void worker::run() {
  this_worker = this;
  thread_id_.store(os::thread_id(), std::memory_order_relaxed);  // a number of its own
  thread_ = thread_state::of_this_thread();
  adopt_thread(loop_);
  const os::alternate_stack faults;  // an overflow is reported from here: the fiber's own stack is used up
  now_ = clock_.now();
  started_.store(now_, std::memory_order_relaxed);  // statistics
  core.worker_started(*this);
  while (!core.terminating.load(std::memory_order_acquire)) {  // pairs with runtime_core::terminate
    if (in_reserve()) [[unlikely]] evacuate();
    if (looks_for_normal_.load(std::memory_order_relaxed)) [[unlikely]] {  // our own question, or a thief's on our behalf
      looks_for_normal_.store(false, std::memory_order_relaxed);           // the same
      if (!in_reserve() && core.published.others_overloaded(seat)) steal(loot_kind::normal_only);
    }
    if (fiber_block* next = step()) {
      resume(*next);
    } else if (!find_work() && !spin()) {
      sleep();
    }
  }
  stop_searching();
  messenger_.end(thread_id());
  core.worker_stopped(*this);
  this_worker = nullptr;
}

// One turn at one `now`: whoever should run next, or nullptr.
fiber_block* worker::step() noexcept {
  if (!changes_.seems_empty()) take_changes();
  const std::int64_t now = read_clock();
  serve(now);
  scheduler::entity* chosen = nullptr;
  {
    spin_guard hold(queue_lock_);
    empty_inbox(now);
    chosen = queue_.pick(now);
    publish_waiting();
  }
  if (chosen) ask_for_help();  // much mail may have come at once
  return chosen ? &block_of(*chosen) : nullptr;
}

void worker::resume(fiber_block& f) noexcept {
  stop_searching();
  begin(f);
  switch_context(loop_, f.machine, thread_);
  settle();
}

void worker::poll_descriptors(std::int64_t timeout) noexcept {
  std::array<os::poll_event, 64> events;
  const int n = poller_.wait(timeout, events);
  if (timeout != 0) core.idle.retract(seat);  // before work is given out: we are not to be asked for help with it
  if (n <= 0) return;
  read_clock();
  core.descriptors.dispatch(std::span<os::poll_event>(events.data(), static_cast<std::size_t>(n)));
}

bool worker::find_work() noexcept { return core.workers.size() > 1 && !in_reserve() && steal(loot_kind::anything); }

// Waits a little for something to turn up: cheaper than being woken, if it turns up soon. True: it did.
bool worker::spin() noexcept {
  // Who is idle for long each time only burns the CPU of others by spinning.
  if (!core.may_spin || is_restless_.load(std::memory_order_relaxed) || idle_average_ > 4 * spin_ns) return false;  // a hint
  if (!core.try_search(is_searcher_)) return false;
  const std::int64_t until = now_ + spin_ns;
  const std::int64_t began = now_;
  bool found = false;
  while (!found && now_ < until) {
    for (int i = 0; i < 16; ++i) os::cpu_relax();
    const std::int64_t now = read_clock();
    found = !inbox_.seems_empty() || timers_.next_expiry() <= now || find_work() ||
            core.terminating.load(std::memory_order_relaxed);  // looked at again by the loop
  }
  idle_ns_.store(idle_ns_.load(std::memory_order_relaxed) + (now_ - began), std::memory_order_relaxed);  // statistics
  if (!found) stop_searching();
  return found;
}

void worker::stop_searching() noexcept {
  if (!is_searcher_.load(std::memory_order_relaxed)) return;  // set by us, or before the notification that woke us
  is_searcher_.store(false, std::memory_order_relaxed);       // ours again
  core.searchers.fetch_sub(1, std::memory_order_relaxed);     // a hint: it limits, it guards nothing
}

// The worker's last look, between the announcement and the sleep; see idle_workers.hpp.
bool worker::has_reason_to_stay() noexcept {
  if (!inbox_.is_empty() || !changes_.is_empty() || core.terminating.load(std::memory_order_seq_cst)) return true;  // pairs with terminate
  // Not again for what could not be taken a moment ago: who is bound to its worker, the monitor knows about.
  if (!in_reserve() && !saw_unmovable_ && core.published.others_overloaded(seat)) return true;
  // Our mail may be in our queue by now: a thief empties the inbox, and leaves what is too fresh to be stolen. If it came
  // before the look at the inbox, the thief has it still under the lock or is done; if later, its sender sees the bit.
  spin_guard hold(queue_lock_);
  return queue_.runnable() != 0;
}

void worker::sleep() noexcept {
  stop_searching();
  if (stacks_) give_up_stacks();  // others may need them, or the system
  const std::int64_t began = read_clock();
  idle_since_.store(began, std::memory_order_relaxed);  // statistics
  fold_usage(began);
  notified_at_.store(0, std::memory_order_relaxed);  // of an earlier sleep; who claims this one comes later
  core.idle.announce(seat);
  core.fiber_ended();  // whoever waits for the last one may have missed it
  if (!has_reason_to_stay()) {
    const std::int64_t expiry = timers_.next_expiry();
    poll_descriptors(expiry == never ? -1 : std::max<std::int64_t>(expiry - began, 0));
    bump(wakeups_);
  }
  saw_unmovable_ = false;
  core.idle.retract(seat);  // again where we did not sleep, or a timer was due at once
  const std::int64_t slept = read_clock() - began;
  idle_since_.store(0, std::memory_order_relaxed);                                                       // statistics
  idle_ns_.store(idle_ns_.load(std::memory_order_relaxed) + slept, std::memory_order_relaxed);           // statistics
  idle_average_ += (slept - idle_average_) / 8;
  stint_began_ = now_;
  if (const std::int64_t asked = notified_at_.exchange(0, std::memory_order_relaxed)) core.wake_ups.record(now_ - asked);  // published by the notification
  core.overseer.nudge();
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
