// SPDX-License-Identifier: BSL-1.0
#include <lagom/scope.hpp>

#include <memory>
#include <stdexcept>
#include <system_error>

#include <lagom/error.hpp>

#include "wait.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

/// A fiber of a scope, in the scope's list while somebody uses the entry: the fiber until it has ended, its spawner
/// until the handle is in it, and a stop request on its way. The scope's lock guards all but the handle, which is set
/// before anybody else may look (is_open).
struct scope_child {
  scope_child* previous = nullptr;
  scope_child* next = nullptr;
  unsigned users = 2;
  bool is_open = false;
  bool is_stopped = false;
  fiber handle;
};

namespace {

struct child_list {
  scope_child*& first;
  scope_child*& last;

  void push_back(scope_child& c) const noexcept {
    c.previous = last;
    (last ? last->next : first) = &c;
    last = &c;
  }
  void unlink(scope_child& c) const noexcept {
    (c.previous ? c.previous->next : first) = c.next;
    (c.next ? c.next->previous : last) = c.previous;
  }
  // The entry, for the last user; to be destroyed without the lock.
  std::unique_ptr<scope_child> let_go(scope_child& c) const noexcept {
    if (--c.users != 0) return nullptr;
    unlink(c);
    return std::unique_ptr<scope_child>(&c);
  }
};

// Nobody joins the fiber itself: the scope counts.
void free_child(std::unique_ptr<scope_child> c) noexcept {
  if (c && c->handle.joinable()) c->handle.detach();
}

bool is_stop(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const std::system_error& e) {
    return e.code() == make_error_code(errc::stopped);
  } catch (...) {
    return false;
  }
}

}  // namespace
}  // namespace detail

using namespace detail;

scope::scope(on_error mode, std::function<void(std::exception_ptr)> function)
    : mode_(mode), exceptions_at_start_(std::uncaught_exceptions()), function_(std::move(function)) {
  if (mode == on_error::call && !function_)
    throw std::invalid_argument("lagom::scope: on_error::call needs a function");
}

scope::~scope() {
  const bool is_unwinding = std::uncaught_exceptions() > exceptions_at_start_;
  if (is_unwinding) request_stop();
  wait_for_all();
  if (!error_ || is_unwinding) return;
  // Thrown again where it is met as any exception that nobody joins is.
  try {
    spawn_detached([error = std::move(error_)] { std::rethrow_exception(error); });
  } catch (const std::exception&) {
    // The runtime is stopping, or has no room: nobody is left to be told.
  }
}

scope_child& scope::open() {
  auto child = std::make_unique<scope_child>();
  {
    const spin_guard hold(guard_);
    if (!stopping_) {
      child_list{first_, last_}.push_back(*child);
      ++live_;
      return *child.release();
    }
  }
  throw_stopped();
}

void scope::opened(scope_child& child, fiber&& handle) noexcept {
  child.handle = std::move(handle);
  guard_.lock();
  child.is_open = true;
  const bool is_late = stopping_ && !child.is_stopped;
  child.is_stopped = child.is_stopped || is_late;
  guard_.unlock();
  if (is_late) child.handle.request_stop();
  guard_.lock();
  auto last_use = child_list{first_, last_}.let_go(child);
  guard_.unlock();
  free_child(std::move(last_use));
}

void scope::not_opened(scope_child& child) noexcept {
  {
    const spin_guard hold(guard_);
    --live_;
    child_list{first_, last_}.unlink(child);
  }
  delete &child;
}

void scope::failed(std::exception_ptr error) noexcept {
  if (stop_requested() && is_stop(error)) return;
  if (mode_ == on_error::call) return function_(std::move(error));
  {
    const std::lock_guard hold(errors_guard_);
    if (!error_) error_ = error;
    if (mode_ == on_error::collect) errors_.push_back(std::move(error));
  }
  if (mode_ == on_error::cancel_all) request_stop();
}

void scope::ended(scope_child& child) noexcept {
  guard_.lock();
  auto last_use = child_list{first_, last_}.let_go(child);
  if (--live_ == 0) {
    wake_all_and_unlock(guard_, joiners_);
  } else {
    guard_.unlock();
  }
  // The scope may be gone.
  free_child(std::move(last_use));
}

void scope::request_stop() noexcept {
  guard_.lock();
  stopping_ = true;
  for (scope_child* c = first_; c;) {
    if (!c->is_open || c->is_stopped) {
      c = c->next;
      continue;
    }
    // Callbacks of the user run in here: not under the lock. The entry stays in the list meanwhile.
    c->is_stopped = true;
    ++c->users;
    guard_.unlock();
    c->handle.request_stop();
    guard_.lock();
    scope_child* const next = c->next;
    auto last_use = child_list{first_, last_}.let_go(*c);
    if (last_use) {
      guard_.unlock();
      free_child(std::move(last_use));
      guard_.lock();
      // The next one may have gone too.
      c = first_;
    } else {
      c = next;
    }
  }
  guard_.unlock();
}

bool scope::stop_requested() const noexcept {
  const spin_guard hold(guard_);
  return stopping_;
}

std::size_t scope::size() const noexcept {
  const spin_guard hold(guard_);
  return live_;
}

std::vector<std::exception_ptr> scope::errors() const {
  const std::lock_guard hold(errors_guard_);
  return errors_;
}

wake scope::wait_until_ns(std::int64_t expiry) noexcept {
  guard_.lock();
  if (live_ == 0) {
    guard_.unlock();
    return wake::notified;
  }
  waiter w;
  return wait_and_unlock(guard_, joiners_, w, wait_reason::scope, expiry);
}

void scope::wait_for_all() noexcept {
  if (wait_until_ns(never) == wake::notified) return;
  request_stop();
  guard_.lock();
  if (live_ == 0) return guard_.unlock();
  waiter w;
  wait_and_unlock(guard_, joiners_, w, wait_reason::scope, never, stoppable::no);
}

void scope::rethrow_error() {
  if (std::exception_ptr error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
}

void scope::join() {
  const wake how = wait_until_ns(never);
  if (how == wake::stopped) wait_for_all();
  rethrow_error();
  if (how == wake::stopped) throw_stopped();
}

bool scope::join_until_ns(std::int64_t expiry) {
  const wake how = wait_until_ns(expiry);
  if (how == wake::stopped) request_stop();
  if (how != wake::notified) return false;
  rethrow_error();
  return true;
}

}  // namespace v0
}  // namespace lagom
