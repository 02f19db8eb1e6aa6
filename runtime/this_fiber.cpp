// SPDX-License-Identifier: BSL-1.0
#include <lagom/this_fiber.hpp>

#include <algorithm>

#include <lagom/runtime.hpp>

#include "fiber/fiber.hpp"
#include "fiber/park.hpp"
#include "fiber/stack_use.hpp"
#include "os/assert.hpp"
#include "os/fork.hpp"
#include "os/thread.hpp"
#include "worker/runtime_core.hpp"
#include "worker/worker.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

attributes attributes_of(fiber_block& f) {
  spin_guard hold(f.end_lock);
  return f.attrs ? *f.attrs : attributes{};
}

namespace {

// cpu_time is complete up to the last switch; what has run since is added. Read again if the fiber was switched meanwhile.
std::chrono::nanoseconds cpu_time_of(const fiber_block& f) {
  for (;;) {
    const std::int64_t since = f.state_since.load(std::memory_order_relaxed);  // as of some recent moment
    const std::int64_t spent = f.cpu_time.load(std::memory_order_relaxed);     // the same
    const bool runs = f.state.load(std::memory_order_relaxed) == block_state::running;  // the same
    if (f.state_since.load(std::memory_order_relaxed) != since) continue;  // the same
    return std::chrono::nanoseconds(runs ? spent + std::max<std::int64_t>(0, monotonic_now() - since) : spent);
  }
}

}  // namespace

fiber_stats stats_of(fiber_block& f) {
  // relaxed: each figure as of some recent moment.
  const auto ns = [](const std::atomic<std::int64_t>& v) { return std::chrono::nanoseconds(v.load(std::memory_order_relaxed)); };
  fiber_stats s;
  s.cpu_time = cpu_time_of(f);
  s.wait_time = ns(f.wait_time);
  s.wait_max = ns(f.wait_max);
  s.switches_voluntary = f.switches_voluntary.load(std::memory_order_relaxed);      // statistics
  s.switches_involuntary = f.switches_involuntary.load(std::memory_order_relaxed);  // statistics
  s.migrations = f.migrations.load(std::memory_order_relaxed);                      // statistics
  if (worker* home = f.home.load(std::memory_order_relaxed)) s.worker = home->index;  // statistics
  s.utilization = static_cast<int>(usage_of(f).at(monotonic_now(), s.cpu_time.count()));
  s.state = visible(f.state.load(std::memory_order_relaxed));                       // statistics
  s.stack_used = f.stack_used.load(std::memory_order_relaxed);                      // statistics; 0 while it lives
  if (s.stack_used == 0) s.stack_used = use_of(f).used;
  return s;
}

void sleep_until_ns(std::int64_t expiry) {
  if (!current_fiber()) {
    os::thread_sleep_until(expiry);
    return;
  }
  if (expiry <= monotonic_now()) return;
  arm();
  if (park(wait_reason::sleep, expiry, stoppable::yes) == wake::stopped) {
    throw std::system_error(errc::stopped, "lagom: sleep");
  }
}

namespace {

fiber_block& need_fiber(const char* what) {
  fiber_block* f = current_fiber();
  if (!f) throw std::system_error(errc::no_runtime, std::string("lagom: this_fiber::") + what + " on a plain thread");
  return *f;
}

}  // namespace
}  // namespace detail

namespace this_fiber {

fiber::id get_id() noexcept {
  detail::fiber_block* f = detail::current_fiber();
  return f ? fiber::id(f->serial) : fiber::id();
}

void yield() noexcept {
  detail::worker* w = detail::current_worker();
  if (detail::fiber_block* f = w ? w->running() : nullptr) {
    if (f->stay_count != 0) [[unlikely]] detail::refuse_to_leave(*f, "yield");
    w->yield(*f);
  } else {
    os::thread_yield();
  }
}

void checkpoint() noexcept {
  detail::worker* w = detail::current_worker();
  if (w && w->running()) w->checkpoint(*w->running());
}

bool stop_requested() noexcept {
  detail::fiber_block* f = detail::current_fiber();
  return f && f->stop_flag.load(std::memory_order_acquire);  // pairs with request_stop
}

std::stop_token get_stop_token() {
  detail::fiber_block* f = detail::current_fiber();
  return f ? detail::stop_source_of(*f).get_token() : std::stop_token();
}

attributes get_attributes() { return detail::attributes_of(detail::need_fiber("get_attributes")); }

// The caller has its change on return, place included: look_around().
void set_attributes(const attributes& a) {
  detail::fiber_block& f = detail::need_fiber("set_attributes");
  detail::set_attributes(f, a);
  detail::worker::look_around(f);
}
void change(const attribute_change& c) {
  detail::fiber_block& f = detail::need_fiber("change");
  detail::change_attributes(f, c);
  detail::worker::look_around(f);
}
void set_nice(int nice) { change({.nice = nice}); }
void set_slice(std::chrono::nanoseconds slice) { change({.slice = slice}); }
void set_policy(policy p) { change({.policy = p}); }

fiber_stats stats() { return detail::stats_of(detail::need_fiber("stats")); }

unsigned worker_index() noexcept {
  detail::worker* w = detail::current_worker();
  return w && w->running() ? w->index : runtime::no_worker;
}

}  // namespace this_fiber

yield_point::yield_point() noexcept : fiber_(detail::current_fiber()) {}

bool yield_point::should_yield() const noexcept {
  // The fiber runs, so its home is the worker it runs on.
  return fiber_ && fiber_->home.load(std::memory_order_relaxed)->should_yield();
}

namespace {

// A guard belongs to the fiber that made it.
void check_owner(const detail::fiber_block* f) {
  if (f && f->forks != os::fork_count()) return;  // the fiber forked inside
  LAGOM_ASSERT_MSG(f == detail::current_fiber(), "a guard of this_fiber ends on another fiber than it began on");
}

}  // namespace

non_migratable::non_migratable() noexcept : fiber_(detail::current_fiber()) {
  if (fiber_) ++fiber_->pin_count;
}
non_migratable::~non_migratable() {
  check_owner(fiber_);
  if (fiber_) --fiber_->pin_count;
}

no_suspend::no_suspend() noexcept : fiber_(detail::current_fiber()) {
  if (fiber_) ++fiber_->stay_count;
}
no_suspend::~no_suspend() {
  check_owner(fiber_);
  if (fiber_) --fiber_->stay_count;
}

uninterruptible::uninterruptible() noexcept : fiber_(detail::current_fiber()) {
  if (fiber_) ++fiber_->no_stop_count;
}
uninterruptible::~uninterruptible() {
  check_owner(fiber_);
  if (fiber_) --fiber_->no_stop_count;
}

}  // namespace v0
}  // namespace lagom
