// SPDX-License-Identifier: BSL-1.0
#include <lagom/condition_variable.hpp>

#include <optional>
#include <system_error>

#include "wait.hpp"

namespace lagom {
inline namespace v0 {

using namespace detail;

wake condition_variable::wait_once(std::unique_lock<mutex>& lock, std::int64_t expiry, const std::stop_token* token) {
  if (!lock.owns_lock()) throw std::system_error(std::make_error_code(std::errc::operation_not_permitted));
  if (token && token->stop_requested()) return wake::stopped;
  if (is_over_at_once(expiry)) {
    lock.unlock();
    give_way_instead_of_waiting(expiry);
    lock.lock();
    return wake::expired;
  }
  waiter w;
  guard_.lock();
  w.who = arm();
  waiters_.push_back(w);
  guard_.unlock();
  // Queued before the mutex is released: who changes the condition afterwards finds this waiter.
  lock.unlock();
  wake how;
  {
    std::optional<stop_watch> watch;
    if (token) watch.emplace(*token, w.who);
    how = park_in_queue(guard_, waiters_, w, wait_reason::condition_variable, expiry, stoppable::yes);
  }
  lock.lock();
  return how;
}

std::cv_status condition_variable::wait_or_throw(std::unique_lock<mutex>& lock, std::int64_t expiry) {
  const wake how = wait_once(lock, expiry, nullptr);
  if (how == wake::stopped) throw_stopped();
  return how == wake::expired ? std::cv_status::timeout : std::cv_status::no_timeout;
}

void condition_variable::wake_one_and_unlock() noexcept { wake_first_and_unlock(guard_, waiters_); }

void condition_variable::wake_all_and_unlock() noexcept { detail::wake_all_and_unlock(guard_, waiters_); }

}  // namespace v0
}  // namespace lagom
