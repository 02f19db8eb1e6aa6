// SPDX-License-Identifier: BSL-1.0
#include "clamp_messenger.hpp"

#include <atomic>
#include <cerrno>
#include <optional>
#include <string>
#include <system_error>

#include "os/thread_clamps.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

namespace {

// Of the process: the first refusal, and whether somebody has been told of it.
std::atomic<int> refusal{0};
std::atomic<bool> is_said{false};

bool is_refused() noexcept { return refusal.load(std::memory_order_relaxed) != 0; }  // for good

// These say that the system has no clamps, or none for us; others, that the thread is gone.
bool is_final(int error) noexcept { return error == EOPNOTSUPP || error == EPERM || error == ENOSYS || error == EINVAL; }

void say(const clamp_messenger::log_line& log) {
  if (!log || is_said.exchange(true, std::memory_order_relaxed)) return;  // once
  const std::error_code why(refusal.load(std::memory_order_relaxed), std::system_category());  // for good
  log("lagom: utilization clamps are not forwarded: " + why.message());
}
void give_up(int error, const clamp_messenger::log_line& log) {
  refusal.store(error, std::memory_order_relaxed);  // for good
  say(log);
}

}  // namespace

bool clamp_messenger::is_possible(const log_line& log) {
  if (is_refused()) return false;
  const int error = os::probe_thread_clamps();
  if (error != 0) give_up(error, log);
  return error == 0;
}

void clamp_messenger::consider(int thread, scheduler::clamp_summary asked, std::size_t runnable, std::int64_t now,
                               const log_line& log) noexcept {
  if (is_refused()) return say(log);
  if (runnable == 0) return;
  std::optional<scheduler::clamp_range> told;
  {
    if (!lock_.try_lock()) return;
    told = forwarder_.consider(asked.among(runnable), now);
    lock_.unlock();
  }
  if (!told) return;
  const int error = os::set_thread_clamps(thread, told->min, told->max);
  if (is_final(error)) give_up(error, log);
}

void clamp_messenger::end(int thread) noexcept {
  bool has_told = false;
  {
    spin_guard hold(lock_);
    has_told = !forwarder_.passed_on().is_neutral();
    forwarder_ = {};
  }
  if (has_told && !is_refused()) os::set_thread_clamps(thread, -1, -1);
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
