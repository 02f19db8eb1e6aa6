// SPDX-License-Identifier: BSL-1.0
#include <lagom/barrier.hpp>
#include <lagom/latch.hpp>

#include "wait.hpp"

namespace lagom {
inline namespace v0 {

void latch::wait_and_unlock() const noexcept {
  detail::waiter w;
  detail::wait_and_unlock(guard_, waiters_, w, detail::wait_reason::latch, detail::never, detail::stoppable::no);
}

void latch::wake_all_and_unlock() noexcept { detail::wake_all_and_unlock(guard_, waiters_); }

namespace detail {

barrier_core::arrival barrier_core::arrive(std::ptrdiff_t n, std::ptrdiff_t leaving, std::uint64_t& phase) noexcept {
  const spin_guard hold(guard_);
  phase = phase_;
  expected_ -= leaving;
  left_ -= n;
  return left_ == 0 ? arrival::last : arrival::early;
}

void barrier_core::end_phase() noexcept {
  guard_.lock();
  ++phase_;
  left_ = expected_;
  wake_all_and_unlock(guard_, waiters_);
}

void barrier_core::wait_for_end(std::uint64_t phase) const noexcept {
  guard_.lock();
  if (phase_ != phase) return guard_.unlock();
  waiter w;
  wait_and_unlock(guard_, waiters_, w, wait_reason::barrier, never, stoppable::no);
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
