// SPDX-License-Identifier: BSL-1.0
#include "fiber/park.hpp"

#include <cstdio>

#include <lagom/this_fiber.hpp>

#include "io/descriptors.hpp"
#include "os/assert.hpp"
#include "os/clock.hpp"
#include "os/fork.hpp"
#include "os/futex.hpp"
#include "after_fork.hpp"
#include "runtime_core.hpp"
#include "worker.hpp"

// The waist, implemented. fiber/park.hpp has the protocol and its invariant.
namespace lagom {
inline namespace v0 {
namespace detail {

namespace {

// A plain thread that waits. Type-stable as fibers are: handed from thread to thread, never freed.
struct thread_parker : parker {
  thread_parker() noexcept : parker(holder::thread) {}
  std::atomic<std::uint32_t> signal{0};
  thread_parker* next = nullptr;
};

spin_lock spare_lock;
thread_parker* spare_parkers = nullptr;

struct lease {
  thread_parker* mine = nullptr;
  ~lease() {
    if (!mine) return;
    spin_guard hold(spare_lock);
    mine->next = spare_parkers;
    spare_parkers = mine;
  }
};
thread_local lease thread_lease;

}  // namespace

void forget_spare_parkers() noexcept {
  spare_lock.unlock();
  spare_parkers = nullptr;
}

namespace {

// Plain threads do not move, so the compiler may keep this address.
thread_parker& own_parker() {
  if (!thread_lease.mine) {
    spin_guard hold(spare_lock);
    if (spare_parkers) {
      thread_lease.mine = spare_parkers;
      spare_parkers = spare_parkers->next;
    }
  }
  if (!thread_lease.mine) thread_lease.mine = new thread_parker;
  return *thread_lease.mine;
}

parker& caller() {
  if (fiber_block* f = current_fiber()) return *f;
  return own_parker();
}

wake park_thread(thread_parker& p, std::int64_t expiry) noexcept {
  for (;;) {
    const std::uint32_t seen = p.signal.load(std::memory_order_acquire);  // pairs with unpark: the word is read after it
    wake cause{};
    if (p.word.end_if_used(cause)) return cause;
    if (os::futex_wait(p.signal, seen, expiry) == os::futex_result::expired) {
      unpark({&p, p.word.epoch()}, wake::expired);  // a waker may still be first: the word decides
    }
  }
}

// Makes a fiber runnable whose ticket the caller has used.
void make_runnable(fiber_block& f) noexcept {
  transition(f, block_state::parked, block_state::runnable);
  worker& home = *f.home.load(std::memory_order_relaxed);  // published by the word
  worker* here = current_worker();
  const bool stays = f.pin_count != 0 || f.on_rq;  // on_rq: delayed, still counted by its queue
  if (here == &home || (here && &here->core == &home.core && !stays)) {
    here->enqueue_woken(f);
    return;
  }
  f.arrival = scheduler::joining::woken;
  stays ? home.send(f) : home.core.dispatch(f);
}

}  // namespace

std::int64_t monotonic_now() noexcept { return os::monotonic_ns(); }

ticket arm() noexcept {
  parker& p = caller();
  return {&p, p.word.arm()};
}

wake end_armed_wait(fiber_block& f) noexcept {
  wake cause{};
  const bool was_used = f.word.end_if_used(cause);
  LAGOM_ASSERT(was_used);
  return cause;
}

void disarm() noexcept {
  wake cause{};
  caller().word.end(cause);
}

void refuse_to_leave(const fiber_block& f, const char* why) noexcept {
  char line[256];
  std::snprintf(line, sizeof line, "fiber %llu '%s' would be suspended (%s) inside no_suspend",
                static_cast<unsigned long long>(f.serial), f.attrs ? f.attrs->name.c_str() : "", why);
  os::fatal(line);
}

bool stop_is_due() noexcept {
  worker* w = current_worker();
  fiber_block* f = w ? w->running() : nullptr;
  // relaxed: looked at again when the fiber is parked.
  return f && f->no_stop_count == 0 && !w->exception_in_flight() && f->stop_flag.load(std::memory_order_relaxed);
}

wake park(wait_reason reason, std::int64_t expiry, stoppable stop) noexcept {
  worker* w = current_worker();
  fiber_block* f = w ? w->running() : nullptr;
  if (!f) return park_thread(own_parker(), expiry);
  if (f->stay_count != 0) [[unlikely]] refuse_to_leave(*f, to_string(reason));

  wake cause{};
  if (stop == stoppable::yes) {
    if (f->no_stop_count != 0 || w->exception_in_flight()) {
      stop = stoppable::no;
    } else if (f->stop_flag.load(std::memory_order_relaxed)) {  // looked at again when the fiber is parked
      return f->word.end(cause) ? cause : wake::stopped;
    }
  }
  f->reason.store(reason, std::memory_order_relaxed);  // for dump()
  f->may_stop = stop;
  const bool timed = expiry != never;
  if (timed) {
    if (expiry <= w->read_clock()) return f->word.end(cause) ? cause : wake::expired;
    w->arm_timer(*f, expiry, {f, f->word.epoch()});
  }
  w->park(*f);
  cause = end_armed_wait(*f);
  worker::look_around(*f);
  if (timed && cause != wake::expired) f->timer.home->timers().cancel(f->timer);
  return cause;
}

bool unpark(ticket who, wake cause) noexcept {
  parker& p = *who.who;
  const park_word::found found = p.word.use(who.epoch, cause);
  if (found == park_word::found::stale) return false;
  if (p.what == parker::holder::fiber) {
    if (found == park_word::found::parked) make_runnable(static_cast<fiber_block&>(p));
  } else {
    auto& t = static_cast<thread_parker&>(p);
    t.signal.fetch_add(1, std::memory_order_release);  // pairs with park_thread
    os::futex_wake(t.signal, 1);
  }
  return true;
}

bool request_stop(fiber_block& f, const runtime_core* core) noexcept {
  std::optional<std::stop_source> source;
  std::unique_ptr<std::stop_callback<stop_relay>> relay;
  std::uint64_t waiting = park_word::no_epoch;
  if (f.forks != os::fork_count()) return false;
  {
    spin_guard hold(f.end_lock);
    if (f.core.load(std::memory_order_relaxed) != core) return false;  // guarded by the lock
    // seq_cst: before the look at the word; pairs with settle_parked().
    if (f.ended || f.stop_flag.exchange(true, std::memory_order_seq_cst)) return false;
    source = f.stop_source;
    relay = std::move(f.relay);
    // Under the lock: later the block may be another fiber's, in a wait of its own.
    waiting = f.word.parked_until_stop();
  }
  relay.reset();  // or it would be called first, and the fiber might be gone with its own callbacks before they are
  if (source) {
    // The standard's class knows who is calling back by his thread.
    const non_migratable here;
    source->request_stop();
  }
  if (waiting != park_word::no_epoch) unpark({&f, waiting}, wake::stopped);
  return true;
}

void preemption_point() noexcept {
  worker* w = current_worker();
  if (w && w->running()) w->preempt_if_asked();
}

io_home current_io() noexcept {
  worker* w = current_worker();
  if (!w || !w->running()) return {};
  return {&w->poller(), &w->core.descriptors};
}

// Once f is pushed it may run and end, and the runtime with it, before we are through: a thread that is not of this runtime
// is counted while it is here, and the end waits for it (runtime_core::terminate). f keeps the runtime alive until the push.
void worker::send(fiber_block& f, claimed sleep) noexcept {
  runtime_core& mine = core;
  const worker* here = current_worker();
  const bool is_visitor = !here || &here->core != &mine;
  if (is_visitor) mine.visitors.fetch_add(1, std::memory_order_relaxed);  // published by the push
  // Who only moves on has waited all the time. Published by the push.
  const std::int64_t now = os::monotonic_ns();
  if (f.arrival != scheduler::joining::migrated) f.state_since.store(now, std::memory_order_relaxed);
  inbox_.push(f);
  if (sleep == claimed::yes || core.idle.claim(seat)) {
    wake_up(now);
  } else {
    // relaxed: a hint for preemption points; the push itself is found by the next step at the latest.
    resched_.store(true, std::memory_order_relaxed);
    core.overseer.nudge();
  }
  if (is_visitor) mine.visitors.fetch_sub(1, std::memory_order_release);  // our last touch; pairs with terminate()
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
