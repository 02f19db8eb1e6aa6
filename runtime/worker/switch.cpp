// SPDX-License-Identifier: BSL-1.0
#include <algorithm>

#include "lock_report.hpp"
#include "os/assert.hpp"
#include "os/thread.hpp"
#include "runtime_core.hpp"
#include "worker.hpp"

// How a fiber gives its worker away, and what happens once its stack is left.
namespace lagom {
inline namespace v0 {
namespace detail {

void worker::publish_waiting() noexcept {
  const std::size_t waiting = queue_.runnable() - (queue_.current() != nullptr && queue_.current()->on_rq ? 1 : 0);
  waiting_.store(static_cast<std::uint32_t>(waiting), std::memory_order_relaxed);  // a hint
  if (waiting == 0 && is_overloaded()) [[unlikely]] set_overloaded(false);
  // An empty queue changes nothing: fibers of the idle class that wait for each other would change it at every switch.
  const bool idle_only = queue_.has_only_idle();
  if (idle_only != is_idle_only_.load(std::memory_order_relaxed) && queue_.runnable() != 0) [[unlikely]] publish_idle_only(idle_only);  // a hint
}

// True: more waits than a wake-up costs. The mark for others lasts a little longer, as its word is shared with them.
bool worker::note_overload() noexcept {
  const std::int64_t movable = std::int64_t{waiting()} - bound();
  const std::int64_t load = movable * stint_.load(std::memory_order_relaxed);  // ours
  const std::int64_t cost = core.wake_ups.now();
  if (load > cost) {
    if (!is_overloaded()) set_overloaded(true);
    return true;
  }
  if (is_overloaded() && 4 * load < cost) set_overloaded(false);
  return false;
}

void worker::set_overloaded(bool on) noexcept {
  is_overloaded_.store(on, std::memory_order_relaxed);  // a hint
  core.published.set(published_words::kind::overloaded, seat, on);
}

void worker::publish_idle_only(bool idle_only) noexcept {
  is_idle_only_.store(idle_only, std::memory_order_relaxed);  // a hint
  core.published.set(published_words::kind::idle_only, seat, idle_only);
  looks_for_normal_.store(idle_only, std::memory_order_relaxed);  // a wish
}

void worker::bind(fiber_block& f) noexcept {
  f.is_bound = true;
  bound_.store(bound() + 1, std::memory_order_relaxed);  // written under the lock
}

void worker::unbind(fiber_block& f) noexcept {
  f.is_bound = false;
  bound_.store(bound() - 1, std::memory_order_relaxed);  // written under the lock
}

void worker::end_stint(fiber_block& f, std::int64_t now) noexcept {
  const std::int64_t stint = now - stint_began_;
  f.usual_stint += (stint - f.usual_stint) >> stint_shift;
  const std::int64_t average = stint_.load(std::memory_order_relaxed);  // ours; a hint for others
  stint_.store(average + ((stint - average) >> stint_shift), std::memory_order_relaxed);  // a hint
  steps_.store(steps_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);    // a hint for the monitor
}

// Apart, so that the way out of a fiber, which mostly finds nothing here, stays short.
__attribute__((noinline)) void worker::admit(fiber_block* f, std::int64_t now) noexcept {
  while (f) {
    fiber_block* next = f->next;
    f->next = nullptr;
    join(*f, f->arrival, now);
    f = next;
  }
}

void worker::empty_inbox(std::int64_t now) noexcept {
  if (fiber_block* all = inbox_.take_all()) admit(all, now);
}

LAGOM_ONE_FRAME void worker::enqueue(fiber_block& f, scheduler::joining why) noexcept {
  f.state_since.store(now_, std::memory_order_relaxed);  // statistics
  {
    spin_guard hold(queue_lock_);
    join(f, why, now_);
    publish_waiting();
  }
  look_again_ = 0;  // what checkpoint() has been told was without f
  ask_for_help();
}

void worker::serve_due(std::int64_t now) noexcept {
  // The counter may be ahead of the clock by a fraction of a microsecond; nobody may wake early by the clock.
  if (timers_.next_expiry() <= now) timers_.fire(os::monotonic_ns());
  if (!changes_.seems_empty()) take_changes();
  if (now < next_poll_) return;
  next_poll_ = now + poll_interval_ns;
  ask_for_help();
  if (now >= next_even_out_) even_out(now);
  if (core.forwards_clamps) forward_clamps(now, {});  // no user code here
  if (core.descriptors.anybody_waits()) poll_descriptors(0);
}

// True when neither the clock nor anybody else can want something of the running fiber.
bool worker::may_look_later() const noexcept {
  return waiting_.load(std::memory_order_relaxed) == 0 && inbox_.seems_empty() && changes_.seems_empty() && timers_.next_expiry() == never &&  // our own
         !core.descriptors.anybody_waits();
}

// Chaos mode, and workers in reserve: a yield goes elsewhere.
void worker::yield_away(fiber_block& f) noexcept {
  unpark(arm(), wake::notified);  // used before it parks: settle_parked() sends it on
  leave(f, departure::parked);
  end_armed_wait(f);
}

void worker::yield(fiber_block& f) noexcept {
  if (is_restless_.load(std::memory_order_relaxed) && f.pin_count == 0) [[unlikely]] return yield_away(f);  // a hint
  if (may_look_later() && !may_be_misplaced(f)) return;
  leave(f, departure::yielded);
}

void worker::park(fiber_block& f) noexcept { leave(f, departure::parked); }

void worker::exit(fiber_block& f) noexcept {
  if (core.is_parents()) os::fatal("a fiber of the parent process ends in a child of fork(): there it must exec or _exit");
  f.machine.dying = true;
  leave(f, departure::exited);
  os::fatal("an ended fiber was resumed");
}

// One frame for the whole way out: each return after a switch meets a return-address predictor that remembers another stack.
LAGOM_ONE_FRAME void worker::leave(fiber_block& f, departure how) noexcept {
  const std::int64_t now = read_clock();
  serve(now);
  end_stint(f, now);
  f.state_since.store(now, std::memory_order_relaxed);  // before others can see f in the queue
  scheduler::entity* chosen = nullptr;
  {
    spin_guard hold(queue_lock_);
    empty_inbox(now);
    switch (how) {
      case departure::yielded: chosen = queue_.yield_and_pick(now); break;
      case departure::parked:
        depart(f);
        chosen = queue_.park_and_pick(now);
        break;
      default:
        depart(f);
        queue_.dequeue(f, scheduler::leaving::exited, now);
        chosen = queue_.pick(now);
    }
    f.cpu_time.store(f.sum_exec, std::memory_order_relaxed);  // statistics
    publish_waiting();
  }
  resched_.store(false, std::memory_order_relaxed);  // our own: the queue was asked just now
  stint_began_ = now;
  if (usage_of(f).is_due(now) && how != departure::exited) note_usage(f, now, how);
  if (chosen == &f) return look_around(f);
  // Only the idle class is left: the loop looks for better work first.
  if (looks_for_normal_.load(std::memory_order_relaxed)) [[unlikely]] chosen = nullptr;  // set under the lock, most often by us
  add_to(f.switches_voluntary, 1);
  jump(f, chosen ? &block_of(*chosen) : nullptr, how);
}

void worker::arm_timer(fiber_block& f, std::int64_t expiry, ticket who) noexcept {
  f.timer.expiry = expiry;
  f.timer.who = who;
  f.timer.home = this;
  timers_.arm(f.timer);
}

void worker::set_default_slice(std::int64_t ns) noexcept {
  spin_guard hold(queue_lock_);
  queue_.set_default_slice(ns);
}

bool worker::should_yield() noexcept {
  if (is_restless_.load(std::memory_order_relaxed)) return true;  // a hint
  if (resched_.load(std::memory_order_relaxed)) return true;  // our own flag
  if (may_look_later()) return false;
  looks_.store(looks_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);  // for the monitor: it is polite
  return !inbox_.seems_empty() || read_clock() >= std::min(look_again_, timers_.next_expiry());
}

void worker::checkpoint(fiber_block& f) noexcept {
  if (!should_yield() || f.stay_count != 0) return;
  if (looks_for_faster_) [[unlikely]] {
    looks_for_faster_ = false;
    if (wants_faster_cpu(f, now_)) return yield_away(f);
  }
  if (is_restless_.load(std::memory_order_relaxed) && (in_reserve() || random() % 4 == 0)) return yield(f);  // a hint
  if (!changes_.seems_empty()) [[unlikely]] take_changes();
  const std::int64_t now = read_clock();
  serve(now);
  scheduler::entity* chosen = &f;
  {
    spin_guard hold(queue_lock_);
    empty_inbox(now);
    if (queue_.charge(now)) {
      f.state_since.store(now, std::memory_order_relaxed);  // before others can see f in the queue
      f.cpu_time.store(f.sum_exec, std::memory_order_relaxed);  // statistics
      chosen = queue_.pick(now);
    }
    look_again_ = now + (chosen == &f ? queue_.time_left() : 0);
    publish_waiting();
  }
  resched_.store(false, std::memory_order_relaxed);  // our own: the queue was asked just now
  if (chosen == &f) {
    // A long stint with others waiting: worth another worker, whatever the average says.
    if (waiting() > 0 && now - stint_began_ > core.wake_ups.now()) call_helper();
    return look_around(f);
  }
  end_stint(f, now);
  if (usage_of(f).is_due(now)) note_usage(f, now, departure::yielded);
  add_to(f.switches_involuntary, 1);
  jump(f, &block_of(*chosen), departure::yielded);
}

void worker::begin(fiber_block& f) noexcept {
  __builtin_prefetch(f.machine.stack_pointer);
  f.on_stack.store(true, std::memory_order_relaxed);  // thieves look under the queue lock, where f is no longer
  const std::int64_t waited = std::max<std::int64_t>(now_ - f.state_since.load(std::memory_order_relaxed), 0);  // statistics
  add_to(f.wait_time, waited);
  if (waited > f.wait_max.load(std::memory_order_relaxed)) f.wait_max.store(waited, std::memory_order_relaxed);  // statistics
  f.state_since.store(now_, std::memory_order_relaxed);  // statistics; cpu_time is complete up to here
  transition(f, block_state::runnable, block_state::running);
  if (f.was_woken) {
    f.was_woken = false;
    latency_.record(waited);
  }
  running_.store(&f, std::memory_order_relaxed);  // ours
  stint_began_ = now_;
  look_again_ = 0;
}

void worker::jump(fiber_block& f, fiber_block* next, departure how) noexcept {
  if constexpr (os::watches_locks) {
    if (f.pin_count == 0 || how == departure::exited) report_held_locks(f, how);
  }
  left_ = &f;
  left_how_ = how;
  if (how == departure::yielded) transition(f, block_state::running, block_state::runnable);
  if (next) {
    begin(*next);
  } else {
    running_.store(nullptr, std::memory_order_relaxed);  // ours
  }
  switch_context(f.machine, next ? next->machine : loop_, thread_);
  // Some worker runs f again: in its queue it has become f's home.
  worker& here = *f.home.load(std::memory_order_relaxed);  // our own; written before the switch
  if (may_be_misplaced(f) && how == departure::yielded) [[unlikely]] {
    here.settle();
    return here.move_if_misplaced(f);
  }
  here.settle();
}

// What has to wait until nobody is on the stack of the one that left. First act of whoever runs next on this worker.
void worker::settle() noexcept {
  fiber_block* f = left_;
  left_ = nullptr;
  if (!f) return;
  switch (left_how_) {
    case departure::yielded:
      // release: pairs with rob(); the saved context is complete for a thief.
      f->on_stack.store(false, std::memory_order_release);
      break;
    case departure::parked: settle_parked(*f); break;
    case departure::exited: bury(*f); break;
    case departure::none: os::fatal("a fiber left without a reason");
  }
}

void worker::settle_parked(fiber_block& f) noexcept {
  transition(f, block_state::running, block_state::parked);
  f.on_stack.store(false, std::memory_order_relaxed);  // published by the exchange below
  const bool may_stop = f.may_stop == stoppable::yes;
  const ticket current{&f, f.word.epoch()};
  if (f.word.settle(current.epoch, f.may_stop)) {
    // From here on f may run elsewhere, end, and be reused: the ticket is all we may hold.
    // seq_cst: after the exchange; pairs with request_stop(), which sets the flag and then looks at the word.
    if (may_stop && f.stop_flag.load(std::memory_order_seq_cst)) unpark(current, wake::stopped);
    return;
  }
  // The ticket was used while we were on the way: nobody else will queue f.
  transition(f, block_state::parked, block_state::runnable);
  if (may_be_misplaced(f)) [[unlikely]] take_affinity(f);
  enqueue_woken(f);
}

void worker::enqueue_woken(fiber_block& f) noexcept {
  if (is_restless_.load(std::memory_order_relaxed) && send_on(f)) [[unlikely]] return;  // a hint
  if (!keeps(f, f.usual_stint)) [[unlikely]] return place(f, scheduler::joining::woken);
  enqueue(f, scheduler::joining::woken);
}

bool worker::send_on(fiber_block& f) noexcept {
  if (!in_reserve()) return scatter(f);
  if (f.pin_count != 0 || f.on_rq) return false;
  worker& target = core.least_waiting(&f);
  if (&target == this) return false;
  f.arrival = scheduler::joining::woken;
  target.send(f);
  return true;
}

std::uint64_t worker::random() noexcept {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  return random_ ^= random_ << 17;
}

// Chaos mode: a runnable fiber goes to any worker, so that nothing can lean on staying where it was.
bool worker::scatter(fiber_block& f) noexcept {
  if (f.pin_count != 0 || f.on_rq) return false;
  const std::size_t target = random() % core.workers.size();
  if (target == index || (f.allowed && !f.allowed[target])) return false;
  f.arrival = scheduler::joining::woken;
  core.workers[target]->send(f);
  return true;
}

void worker::bury(fiber_block& f) noexcept {
  discard_context(f.machine);
  if (core.options.measure_stacks) [[unlikely]] core.note_stack_use(f);
  put_stack(f.memory.load(std::memory_order_relaxed));   // ours
  f.memory.store(nullptr, std::memory_order_relaxed);    // the same
  f.on_stack.store(false, std::memory_order_relaxed);  // nobody steals an ended fiber
  transition(f, block_state::running, block_state::exited);
  end_fiber(f);
  bump(finished_);
  core.fiber_ended();
}

void worker::enter(machine_context& self, machine_context&) {
  fiber_block& f = *static_cast<fiber_block*>(self.owner);
  f.home.load(std::memory_order_relaxed)->settle();  // our own; written before the switch
  look_around(f);
  f.core.load(std::memory_order_relaxed)->run_body(f);  // set before f was runnable
  f.home.load(std::memory_order_relaxed)->exit(f);   // not the worker we began on
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
