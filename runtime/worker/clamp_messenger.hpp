// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include <lagom/detail/spin_lock.hpp>

#include "scheduler/clamp.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

/// Tells the system what a worker's fibers ask for together (runtime_options::forward_clamps), as clamps of the worker's OS
/// thread. When and what: scheduler::clamp_forwarder. The worker asks at its steps, the monitor in place of one that makes none,
/// as when a fiber computes alone. A system that refuses is not asked again in this process, and that is said once.
class clamp_messenger {
 public:
  using log_line = std::function<void(std::string_view)>;

  /// Can this system be told? Says so if not. Any thread.
  static bool is_possible(const log_line& log);

  /// Any thread; who comes while another is at it does nothing. runnable 0: nobody asks for anything, what holds stays. An empty
  /// log: somebody else will say it.
  void consider(int thread, scheduler::clamp_summary asked, std::size_t runnable, std::int64_t now, const log_line& log) noexcept;
  /// The thread ends, or serves others: its clamps go back to none.
  void end(int thread) noexcept;

 private:
  spin_lock lock_;
  scheduler::clamp_forwarder forwarder_;  // guarded by lock_
};

}  // namespace detail
}  // namespace v0
}  // namespace lagom
