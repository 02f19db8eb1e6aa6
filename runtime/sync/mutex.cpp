// SPDX-License-Identifier: BSL-1.0
#include <lagom/mutex.hpp>

#include <limits>
#include <system_error>

#include <lagom/this_fiber.hpp>

#include "wait.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

bool mutex_core::lock_slowly(std::int64_t expiry) noexcept {
  waiter w;
  wake how = wait_and_unlock(guard_, waiters_, w, wait_reason::mutex, expiry, stoppable::no);
  if (how != wake::notified) return false;
  guard_.lock();
  waking_ = false;
  if (!held_) {
    held_ = true;
    guard_.unlock();
    return true;
  }
  // Passed over. If the time is over as well, nothing is lost by leaving: the owner's unlock() sees waking_ cleared.
  if (expiry != never && expiry <= monotonic_now()) {
    guard_.unlock();
    return false;
  }
  w.flag = true;
  w.who = arm();
  waiters_.push_front(w);
  guard_.unlock();
  // Unlinked by another means handed over, see the invariant.
  return park_in_queue(guard_, waiters_, w, wait_reason::mutex, expiry, stoppable::no) == wake::notified;
}

void mutex_core::wake_one_and_unlock() noexcept {
  waiter& first = *waiters_.pop();
  if (!first.flag) {
    held_ = false;
    waking_ = true;
  }
  const ticket who = first.who;
  guard_.unlock();
  unpark(who);
}

namespace {

// Tells callers apart: fibers by their id, made odd, threads by the address of something of their own, which is even.
// Not inlined: a fiber asks once on this thread and once on that.
__attribute__((noinline)) std::uintptr_t caller_mark() noexcept {
  thread_local std::uint64_t mine = 0;
  const std::uint64_t fiber = this_fiber::get_id().value();
  return fiber ? static_cast<std::uintptr_t>(fiber * 2 + 1) : reinterpret_cast<std::uintptr_t>(&mine);
}

}  // namespace
}  // namespace detail

recursive_mutex::entry recursive_mutex::enter_again() noexcept {
  // relaxed: equal only if the caller wrote it itself.
  if (owner_.load(std::memory_order_relaxed) != detail::caller_mark()) return entry::first;
  if (levels_ == std::numeric_limits<std::uint32_t>::max()) return entry::full;
  ++levels_;
  return entry::again;
}

void recursive_mutex::enter_first() noexcept {
  owner_.store(detail::caller_mark(), std::memory_order_relaxed);  // guarded by mutex_
  levels_ = 1;
}

void recursive_mutex::lock() {
  switch (enter_again()) {
    case entry::again:
      return;
    case entry::full:
      throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    case entry::first:
      break;
  }
  mutex_.lock();
  enter_first();
}

bool recursive_mutex::try_lock() noexcept {
  const entry how = enter_again();
  if (how != entry::first) return how == entry::again;
  if (!mutex_.try_lock()) return false;
  enter_first();
  return true;
}

void recursive_mutex::unlock() noexcept {
  if (--levels_ != 0) return;
  owner_.store(0, std::memory_order_relaxed);  // guarded by mutex_
  mutex_.unlock();
}

}  // namespace v0
}  // namespace lagom
