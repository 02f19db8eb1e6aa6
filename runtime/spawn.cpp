// SPDX-License-Identifier: BSL-1.0
#include <exception>
#include <ostream>

#include <lagom/fiber.hpp>

#include "fiber/fiber.hpp"
#include "fiber/park.hpp"
#include "os/fork.hpp"
#include "worker/runtime_core.hpp"
#include "worker/worker.hpp"

// Spawning and the handle.
namespace lagom {
inline namespace v0 {
namespace detail {

runtime_core& current_core() {
  worker* w = current_worker();
  if (!w) throw std::system_error(errc::no_runtime, "lagom: spawn on a plain thread; use runtime::spawn");
  return w->core;
}

prepared prepare_spawn(runtime_core& core, const attributes* attrs, std::size_t size, std::size_t align, ownership who) {
  return core.prepare(attrs, size, align, who);
}

void commit_spawn(runtime_core& core, fiber_block& block, void (*run)(void*, std::stop_token (*)())) noexcept {
  block.run = run;
  core.commit(block);
}

void abandon_spawn(runtime_core& core, fiber_block& block) noexcept { core.abandon(block); }

namespace {

std::stop_token own_stop_token() { return stop_source_of(*current_fiber()).get_token(); }

}  // namespace

void runtime_core::report_uncaught(fiber_block& f, std::exception_ptr failure) noexcept {
  uncaught.fetch_add(1, std::memory_order_relaxed);  // statistics
  // Nobody is left to hear of it: as with std::thread.
  if (!options.on_uncaught) std::terminate();
  options.on_uncaught(attributes_of(f), std::move(failure));
}

void runtime_core::run_body(fiber_block& f) {
  if (!knows_of_exit_.load(std::memory_order_relaxed)) [[unlikely]] watch_for_exit();  // decided there
  // A fiber that nobody joins and nobody listens to: no handler, so that the core shows the throw.
  if (f.is_detached.load(std::memory_order_relaxed) && !options.on_uncaught) {
    f.run(f.task, &own_stop_token);
    if (f.locals) end_locals(f);
    return;
  }
  std::exception_ptr failure;
  try {
    f.run(f.task, &own_stop_token);
  } catch (...) {
    failure = std::current_exception();
  }
  if (f.locals) end_locals(f);
  if (!failure) return;
  bool nobody_joins = false;
  {
    spin_guard hold(f.end_lock);
    nobody_joins = f.is_detached.load(std::memory_order_relaxed);  // guarded by the lock
    if (!nobody_joins) f.failure = std::move(failure);
  }
  if (nobody_joins) report_uncaught(f, std::move(failure));
}

namespace {

// In a child of fork() a handle is all there is of the fiber: nobody runs it.
bool is_parents(const fiber_block& f) noexcept { return f.forks != os::fork_count(); }

wake wait_for_end(fiber_block& f, std::int64_t expiry, stoppable stop) {
  waiter w;
  {
    spin_guard hold(f.end_lock);
    if (f.ended) return wake::notified;
    w.who = arm();
    f.joiners.push_back(w);
  }
  const wake result = park(wait_reason::join, expiry, stop);
  if (result == wake::notified) return result;
  spin_guard hold(f.end_lock);
  if (!w.linked) return wake::notified;
  f.joiners.unlink(w);
  return result;
}

// What is found in a fiber that ended before its handle was given up. A handle may outlive the runtime; then there is
// nobody left to tell.
void report_late(fiber_block& f, std::exception_ptr failure) {
  runtime_core* core = f.core.load(std::memory_order_acquire);  // set before the handle was, cleared by ~runtime_core
  if (core) core->report_uncaught(f, std::move(failure));
}

}  // namespace
}  // namespace detail

std::ostream& operator<<(std::ostream& out, fiber::id i) { return out << i.value(); }

bool fiber::join_until_ns(std::int64_t expiry) {
  if (!block_) throw std::system_error(errc::not_joinable, "lagom: join of an empty fiber handle");
  if (block_ == detail::current_fiber()) throw std::system_error(errc::would_deadlock, "lagom: a fiber joins itself");
  if (detail::is_parents(*block_)) throw std::system_error(errc::forked, "lagom: join of a fiber of the parent process");
  switch (detail::wait_for_end(*block_, expiry, detail::stoppable::yes)) {
    case detail::wake::expired: return false;
    case detail::wake::stopped: throw std::system_error(errc::stopped, "lagom: join");
    case detail::wake::notified: break;
  }
  detail::fiber_block* ended = std::exchange(block_, nullptr);
  std::exception_ptr failure = std::exchange(ended->failure, nullptr);
  detail::drop_reference(*ended);
  if (failure) std::rethrow_exception(std::move(failure));
  return true;
}

void fiber::join() { join_until_ns(detail::never); }

void fiber::detach() {
  if (!block_) throw std::system_error(errc::not_joinable, "lagom: detach of an empty fiber handle");
  detail::fiber_block* f = std::exchange(block_, nullptr);
  if (detail::is_parents(*f)) return;
  std::exception_ptr failure;
  {
    detail::spin_guard hold(f->end_lock);
    f->is_detached.store(true, std::memory_order_relaxed);  // guarded by the lock
    failure = std::exchange(f->failure, nullptr);
  }
  if (failure) detail::report_late(*f, std::move(failure));
  detail::drop_reference(*f);
}

void fiber::finish() noexcept {
  if (!block_) return;
  if (detail::is_parents(*block_)) {
    block_ = nullptr;
    return;
  }
  request_stop();
  detail::wait_for_end(*block_, detail::never, detail::stoppable::no);
  detail::fiber_block* f = std::exchange(block_, nullptr);
  std::exception_ptr failure = std::exchange(f->failure, nullptr);
  if (failure) detail::report_late(*f, std::move(failure));
  detail::drop_reference(*f);
}

fiber::id fiber::get_id() const noexcept { return block_ ? id(block_->serial) : id(); }

bool fiber::request_stop() noexcept {
  return block_ && detail::request_stop(*block_, block_->core.load(std::memory_order_acquire));  // set before the handle was
}

std::stop_source fiber::get_stop_source() {
  return block_ ? detail::relaying_source_of(*block_) : std::stop_source(std::nostopstate);
}

std::stop_token fiber::get_stop_token() const {
  return block_ ? detail::stop_source_of(*block_).get_token() : std::stop_token();
}

attributes fiber::get_attributes() const {
  if (!block_) throw std::system_error(errc::not_joinable, "lagom: attributes of an empty fiber handle");
  return detail::attributes_of(*block_);
}

namespace {

detail::fiber_block& need_block(detail::fiber_block* f) {
  if (!f) throw std::system_error(errc::not_joinable, "lagom: attributes of an empty fiber handle");
  if (detail::is_parents(*f)) throw std::system_error(errc::forked, "lagom: attributes of a fiber of the parent process");
  return *f;
}

}  // namespace

void fiber::set_attributes(const attributes& a) { detail::set_attributes(need_block(block_), a); }
void fiber::change(const attribute_change& c) { detail::change_attributes(need_block(block_), c); }
void fiber::set_nice(int nice) { change({.nice = nice}); }
void fiber::set_slice(std::chrono::nanoseconds slice) { change({.slice = slice}); }
void fiber::set_policy(policy p) { change({.policy = p}); }

fiber_stats fiber::stats() const {
  if (!block_) throw std::system_error(errc::not_joinable, "lagom: stats of an empty fiber handle");
  return detail::stats_of(*block_);
}

}  // namespace v0
}  // namespace lagom
