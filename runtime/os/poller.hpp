// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <system_error>

#include "fork.hpp"

namespace lagom::os {

// What to be told about a descriptor. Bits.
enum class interest : std::uint32_t {
  none = 0,
  readable = 1,
  writable = 2,
  one_shot = 4,  // disarmed after one event until modify()
  edge = 8,      // only changes are reported
};

// What is the case. error and hung_up are reported whether asked for or not, except by a disarmed one-shot.
enum class readiness : std::uint32_t {
  none = 0,
  readable = 1,
  writable = 2,
  peer_closed = 4,  // the peer will send no more; reported with readable
  hung_up = 8,
  error = 16,
};

[[nodiscard]] constexpr interest operator|(interest a, interest b) noexcept {
  return static_cast<interest>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
[[nodiscard]] constexpr readiness operator|(readiness a, readiness b) noexcept {
  return static_cast<readiness>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
[[nodiscard]] constexpr bool any_of(interest set, interest wanted) noexcept {
  return (static_cast<std::uint32_t>(set) & static_cast<std::uint32_t>(wanted)) != 0;
}
[[nodiscard]] constexpr bool any_of(readiness set, readiness wanted) noexcept {
  return (static_cast<std::uint32_t>(set) & static_cast<std::uint32_t>(wanted)) != 0;
}

struct poll_event {
  std::uint64_t token = 0;
  readiness ready = readiness::none;
};

// The one place where a worker sleeps: for descriptors, for a time, for a notify(). One per worker; wait() is called
// by one thread at a time, everything else by any thread at any time. Descriptors are close-on-exec.
class poller {
 public:
  // Throws std::system_error, naming what the system refused.
  poller();
  ~poller();
  poller(const poller&) = delete;
  poller& operator=(const poller&) = delete;

  // Waits until something is ready, notify() was called since the last wait() that saw it, timeout_ns has passed
  // (0: only looks, < 0: no limit), or for no reason (a signal). Fills out from the front, returns how many; 0 for
  // all other reasons. Not early on time: kernels without epoll_pwait2 (< 5.11) round up to whole milliseconds.
  // A notification is not an event, but it makes everything written before notify() visible here.
  // REQUIRES: out is not empty.
  int wait(std::int64_t timeout_ns, std::span<poll_event> out) noexcept;

  // What is ready now, for a thread that is not the waiter and looks in its place, also while wait() runs. A notification
  // met here is passed on. REQUIRES: out is not empty.
  int look(std::span<poll_event> out) noexcept;

  // Ends a present or the next wait(). Any thread, also from a signal handler. Several before one wait() count once;
  // only the first is a system call.
  void notify() noexcept;

  // errno as std::error_code (generic category): add: EEXIST (already here), EPERM (a file that is always ready),
  // EBADF, ENOSPC, ENOMEM; modify and remove: ENOENT. A descriptor that was closed everywhere is removed by itself.
  // An event may still be reported by a wait() that runs at the same time as remove(): tokens must bear that.
  // In a child of fork() these and notify() do nothing: they would change what the parent waits for.
  // REQUIRES: token != reserved_token.
  std::error_code add(int descriptor, interest wanted, std::uint64_t token) noexcept;
  std::error_code modify(int descriptor, interest wanted, std::uint64_t token) noexcept;
  std::error_code remove(int descriptor) noexcept;

  static constexpr std::uint64_t reserved_token = ~std::uint64_t{0};

  // For tests: behave as on a kernel without epoll_pwait2.
  static void force_millisecond_wait(bool force) noexcept;

 private:
  int collect(std::int64_t timeout_ns, std::span<poll_event> out, bool& was_notified) noexcept;
  std::error_code control(int operation, int descriptor, interest wanted, std::uint64_t token) noexcept;

  int epoll_fd_ = -1;
  int event_fd_ = -1;
  std::atomic<bool> notified_{false};
  std::atomic<std::uint32_t> registrations_{0};
  const std::uint32_t forks_ = fork_count();  // the kernel's part is shared with children of fork()
};

}  // namespace lagom::os
