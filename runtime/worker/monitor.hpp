// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "constants.hpp"
#include "os/thread.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

class runtime_core;
class worker;

/// The thread that looks at the workers from outside, for what they cannot see themselves: a fiber that does not give way
/// while others wait behind it (rescue.cpp); a runtime where nothing can ever happen again; a change of the CPUs it may use.
/// Asleep while all workers are; looks every 1 to 4 ms else.
class monitor {
 public:
  explicit monitor(runtime_core& core) noexcept : core_(core) {}
  void start();                // may throw std::system_error
  void stop() noexcept;
  /// A worker is awake: it has taken its announcement back in core_.idle, or somebody has for it. One load unless the monitor
  /// sleeps. Invariant: the monitor does not sleep on while a worker is up; checked by tests/model/.
  void nudge() noexcept {
    // seq_cst: after the end of the worker's sleep; pairs with run(), which says that it sleeps and then counts the idle.
    if (asleep_.load(std::memory_order_seq_cst)) wake();
  }

 private:
  // What has been seen of each worker. Times in ns.
  struct sight {
    std::uint64_t progress = 0;
    std::int64_t held_since = 0;     // no progress since
    std::int64_t waiting_since = 0;  // something waits behind it since; 0: nothing
    std::int64_t cpu_used = -1;      // by its thread, when held_since was first found; -1: not looked at yet
    bool is_reported = false;
  };

  void run();
  void try_wake_ups() noexcept;
  void wake() noexcept;
  bool look(std::int64_t now); // true: look again soon
  void remind(std::int64_t now) noexcept;
  bool attend(worker& w, std::int64_t now);
  bool rescue(worker& w, std::int64_t now);
  static bool is_starved(const worker& w, const sight& s, std::int64_t now) noexcept;
  void look_for_deadlock(std::int64_t now);

  runtime_core& core_;
  os::native_thread thread_;
  std::atomic<bool> asleep_{false};
  std::atomic<std::uint32_t> signal_{0};
  std::atomic<bool> stopping_{false};
  std::vector<sight> seen_;
  std::int64_t next_follow_ = 0, next_reminder_ = 0;
  bool somebody_waits_ = false;
  bool has_substitute_ = false;
  bool reported_ = false;
};

}  // namespace detail
}  // namespace v0
}  // namespace lagom
