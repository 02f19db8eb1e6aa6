// SPDX-License-Identifier: BSL-1.0
#include "blocking_pool.hpp"

#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include "fiber/park.hpp"
#include "os/assert.hpp"
#include "os/clock.hpp"
#include "os/futex.hpp"
#include "runtime_core.hpp"
#include "topology/bind.hpp"
#include "worker.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

struct blocking_pool::job {
  enum class stage : std::uint8_t { queued, running, done };

  blocking_call& call;
  const blocking_options& options;
  ticket who{};
  stage at = stage::queued;
  std::error_code refused{};  // why the call was not made
  job* next = nullptr;
  job* previous = nullptr;
};

struct blocking_pool::member {
  os::native_thread thread;
  std::atomic<std::uint32_t> may_start{0};  // `thread` is set: others may join it
  bool is_spoilt = false;                   // has what it could not give back
};

void blocking_pool::run(blocking_call& call, const blocking_options& options) {
  job j{call, options};
  if (stop_is_due()) throw std::system_error(errc::stopped, "lagom: blocking");
  j.who = arm();
  submit(j);
  if (park(wait_reason::blocking_call) == wake::stopped) {
    lock_.lock();
    if (j.at == job::stage::queued) {
      unlink(j);
      lock_.unlock();
      throw std::system_error(errc::stopped, "lagom: blocking");
    }
    // It has begun, and uses our frame: no way but to wait.
    const bool runs = j.at == job::stage::running;
    if (runs) j.who = arm();
    lock_.unlock();
    if (runs) park(wait_reason::blocking_call, never, stoppable::no);
  }
  if (j.refused) throw std::system_error(j.refused, "lagom: blocking");
}

void blocking_pool::submit(job& j) {
  lock_.lock();
  if (waiter* const idle = idle_.pop()) {
    j.at = job::stage::running;
    ++running_;
    idle->slot = &j;
    const ticket who = idle->who;
    lock_.unlock();
    unpark(who);
    return;
  }
  j.previous = last_;
  (last_ ? last_->next : first_) = &j;
  last_ = &j;
  const bool grows = threads_ < most_;
  threads_ += grows;
  lock_.unlock();
  if (grows) grow();
}

// REQUIRES: the new thread is counted already.
bool blocking_pool::grow() noexcept {
  std::error_code why;
  try {
    auto fresh = std::make_unique<member>();
    fresh->thread = os::native_thread("lagom-blocking", [this, self = fresh.get()] { serve(*self); });
    member& started = *fresh.release();  // whoever joins it deletes it
    started.may_start.store(1, std::memory_order_release);  // pairs with serve()
    os::futex_wake(started.may_start, 1);
    return true;
  } catch (const std::system_error& e) {
    why = e.code();
  } catch (const std::bad_alloc&) {
    why = std::make_error_code(std::errc::not_enough_memory);
  }
  lock_.lock();
  --threads_;
  // While there are others they will come to it. Else nobody would.
  while (threads_ == 0 && first_) {
    job& j = *first_;
    unlink(j);
    j.refused = why;
    j.at = job::stage::done;
    const ticket who = j.who;
    lock_.unlock();
    unpark(who);
    lock_.lock();
  }
  lock_.unlock();
  return false;
}

void blocking_pool::unlink(job& j) noexcept {
  (j.previous ? j.previous->next : first_) = j.next;
  (j.next ? j.next->previous : last_) = j.previous;
}

void blocking_pool::serve(member& self) noexcept {
  while (self.may_start.load(std::memory_order_acquire) == 0) {  // pairs with grow()
    os::futex_wait(self.may_start, 0, never);
  }
  // It has the mask of whoever started it: a worker that is bound, perhaps, whose CPU is the last it should contend for.
  if (core_.pin_used != pin::none) topology::unbind(core_.machine);
  while (job* const j = next_job(self)) perform(*j, self);
}

// What to do next, or nullptr: this thread ends, and `self` and the pool may be gone.
blocking_pool::job* blocking_pool::next_job(member& self) noexcept {
  for (;;) {
    lock_.lock();
    if (first_ && self.is_spoilt) {
      ++threads_;
      lock_.unlock();
      const bool has_successor = grow();
      lock_.lock();
      if (has_successor) {
        leave_and_unlock(self);
        return nullptr;
      }
    }
    if (first_) {
      job& j = *first_;
      unlink(j);
      j.at = job::stage::running;
      ++running_;
      lock_.unlock();
      return &j;
    }
    if (stopping_ || self.is_spoilt) {
      leave_and_unlock(self);
      return nullptr;
    }
    waiter w;
    w.who = arm();
    idle_.push_front(w);
    lock_.unlock();
    if (park(wait_reason::none, os::saturating_add(os::monotonic_ns(), keep_alive_), stoppable::no) != wake::notified) {
      lock_.lock();
      if (w.linked) {
        idle_.unlink(w);
        leave_and_unlock(self);
        return nullptr;
      }
      lock_.unlock();
    }
    if (w.slot) return static_cast<job*>(w.slot);
  }
}

void blocking_pool::leave_and_unlock(member& self) noexcept {
  member* const before = std::exchange(ended_, &self);
  const bool last = --threads_ == 0;
  waiter* const stopper = last ? stopper_.pop() : nullptr;
  const ticket who = stopper ? stopper->who : ticket{};
  lock_.unlock();
  // The pool may end from here on, once this thread has been joined.
  if (before) {
    before->thread.join();
    delete before;
  }
  if (stopper) unpark(who);
}

namespace {

// Gives the calling thread what the options ask for, and takes it back. Only where they ask for something.
class os_settings {
 public:
  explicit os_settings(const blocking_options& options) noexcept
      : policy_(options.os_policy != policy::normal), nice_(options.os_nice.has_value()) {
    if (nice_) {
      old_nice_ = os::thread_nice();
      error_ = os::set_thread_nice(*options.os_nice);
    }
    if (policy_ && error_ == 0) {
      error_ = os::set_thread_class(options.os_policy == policy::idle ? os::thread_class::idle : os::thread_class::batch);
    }
  }
  /// 0 or errno.
  int error() const noexcept { return error_; }
  /// False: not permitted.
  bool take_back() const noexcept {
    const bool policy_is_back = !policy_ || os::set_thread_class(os::thread_class::normal) == 0;
    const bool nice_is_back = !nice_ || os::set_thread_nice(old_nice_) == 0;
    return policy_is_back && nice_is_back;
  }

 private:
  const bool policy_, nice_;
  int old_nice_ = 0;
  int error_ = 0;
};

}  // namespace

void blocking_pool::perform(job& j, member& self) noexcept {
  const os_settings settings(j.options);
  if (settings.error() == 0) {
    j.call.run(&j.call);
  } else {
    j.refused = std::error_code(settings.error(), std::generic_category());
  }
  self.is_spoilt = !settings.take_back();
  lock_.lock();
  j.at = job::stage::done;
  --running_;
  const ticket who = j.who;
  lock_.unlock();
  unpark(who);
}

void blocking_pool::stop() noexcept {
  lock_.lock();
  LAGOM_ASSERT(running_ == 0 && !first_);
  stopping_ = true;
  while (waiter* const idle = idle_.pop()) {  // its slot is empty
    const ticket who = idle->who;
    lock_.unlock();
    unpark(who);
    lock_.lock();
  }
  waiter w;
  const bool waits = threads_ > 0;
  if (waits) {
    w.who = arm();
    stopper_.push_back(w);
  }
  lock_.unlock();
  if (waits) park(wait_reason::none, never, stoppable::no);
  if (member* const last = std::exchange(ended_, nullptr)) {
    last->thread.join();
    delete last;
  }
}

blocking_pool::counts blocking_pool::look() const noexcept {
  const spin_guard hold(lock_);
  counts now{threads_, running_};
  for (const job* j = first_; j; j = j->next) ++now.calls;
  return now;
}

bool should_offload() noexcept { return current_fiber() != nullptr; }

void offload(blocking_call& call, const blocking_options& options) { current_worker()->core.offloads.run(call, options); }

}  // namespace detail
}  // namespace v0
}  // namespace lagom
