// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <system_error>

#include <lagom/detail/spin_lock.hpp>
#include <lagom/detail/wait_queue.hpp>

#include "fiber/park.hpp"
#include "os/poller.hpp"
#include "stable_array.hpp"

// Waiting for descriptors that belong to the user, who may close them without telling us.
//
// Each wait registers its descriptor, one-shot and level-triggered, with the poller of the worker it runs on. Both
// directions of a descriptor share one registration, which stays in the kernel, disarmed, between waits: a wait costs
// one epoll_ctl (modify) as long as its fiber stays on a worker, two when it has moved.
//
//   waiter (fiber)                                  dispatch() on any worker
//   w.who = arm(); lock the entry                   lock the entry
//   link w; register {fd, ++generation}             generation of the event == the entry's?  unlink who is ready
//   unlock                                          register again what still waits (one-shot has disarmed it)
//   park                                            unlock; unpark
//
// Invariant: an entry with a waiter has an armed registration under its present generation that covers the waiter's
// direction, or an event of that generation is on its way to dispatch(). Every registration looks at what is the case
// already, so readiness between the caller's EAGAIN and the registration fires at once; and an event of an older
// generation may be dropped, since the newer registration has asked the same question later.
//
// Entries are never freed while the table lives, so an event that comes late finds one. A descriptor closed and opened
// again under the same number has no registration (ENOENT: add), and events of the old one carry an old generation.
//
// Which poller: while the other direction waits, the one it waits with; else the caller's, so that the event is seen by
// the worker on which the fiber is likely to run. Measured on the machine of docs/constants.md: modify 0.4 us, remove and
// add 2.0 us, waking another worker 30 us.
//
// Rejected: staying registered for edges (a user who reads with plain read(2) and the reuse of numbers make missed
// edges ours to explain); removing the registration after each wait (one system call more per wait).
namespace lagom {
inline namespace v0 {
namespace detail {

enum class direction : std::uint8_t { read = 0, write = 1 };

class descriptor_table;

constexpr std::size_t index_of(direction where) noexcept { return static_cast<std::size_t>(where); }
constexpr os::interest interest_of(direction where) noexcept {
  return where == direction::read ? os::interest::readable : os::interest::writable;
}
constexpr wait_reason reason_of(direction where) noexcept {
  return where == direction::read ? wait_reason::readable : wait_reason::writable;
}
/// An error or a hang-up concerns both directions: the call that follows the wait will tell.
constexpr os::readiness ready_for(direction where) noexcept {
  return os::readiness::hung_up | os::readiness::error |
         (where == direction::read ? os::readiness::readable : os::readiness::writable);
}

/// Tokens: number of the entry below, its generation above. The mark tells sockets of net:: from descriptors of users.
inline constexpr std::uint32_t socket_mark = 0x80000000;
constexpr std::uint64_t make_token(std::uint32_t number, std::uint32_t generation) noexcept {
  return static_cast<std::uint64_t>(generation) << 32 | number;
}

/// Where the calling fiber's worker looks for readiness. worker/ implements it; both null on a plain thread.
struct io_home {
  os::poller* poller = nullptr;
  descriptor_table* table = nullptr;
};
io_home current_io() noexcept;

/// A way to the runtime's log.
struct reporter {
  void (*say)(void* context, std::string_view line) = nullptr;
  void* context = nullptr;
};

/// One per runtime. Any fiber and worker of it at any time; destroyed when none is left.
class descriptor_table {
 public:
  descriptor_table() noexcept;
  ~descriptor_table();
  descriptor_table(const descriptor_table&) = delete;
  descriptor_table& operator=(const descriptor_table&) = delete;

  /// Is a wait in flight, so that looking at the pollers may be worth it? One load; a hint.
  bool anybody_waits() const noexcept { return waits_.load(std::memory_order_relaxed) != 0; }

  /// Makes runnable whom the events concern. On a worker, its own stack or a fiber's; no lock held.
  void dispatch(std::span<const os::poll_event> events) noexcept;

  /// Waits until fd is ready for the direction; see <lagom/io.hpp> for the errors. An expiry of 0 or less only looks.
  /// REQUIRES: called by a fiber of the table's runtime.
  std::error_code wait(int fd, direction where, std::int64_t expiry) noexcept;
  std::error_code wait(int fd, direction where, std::int64_t expiry, wait_reason why) noexcept;

  /// A wait in flight, for anybody_waits().
  void wait_began() noexcept { waits_.fetch_add(1, std::memory_order_relaxed); }
  void wait_ended() noexcept { waits_.fetch_sub(1, std::memory_order_relaxed); }

  /// Tells tables apart, also one that was made where another has been. Never 0.
  std::uint64_t serial() const noexcept { return serial_; }

  /// Where report() says its lines. Before the first wait.
  void set_reporter(reporter r) noexcept { reporter_ = r; }
  /// Says one line about a trouble that lasts, at most one in ten seconds.
  void report(std::string_view line) noexcept;

 private:
  struct alignas(64) entry {
    spin_lock lock;
    std::uint32_t generation = 0;
    os::poller* registered_with = nullptr;
    std::array<waiter*, 2> waiting{};
  };
  entry* find(int fd) noexcept;
  entry* find_or_make(int fd) noexcept;
  std::error_code enroll(entry& e, int fd, direction where, waiter& w) noexcept;
  static std::error_code arm_registration(entry& e, int fd, os::poller& here) noexcept;
  void deliver(const os::poll_event& event) noexcept;

  stable_array<std::atomic<entry*>, 256> entries_;  // by descriptor number
  const std::uint64_t serial_;
  reporter reporter_;
  std::atomic<std::int64_t> quiet_until_{0};
  alignas(64) std::atomic<std::uint32_t> waits_{0};
};

/// Counts a wait for as long as it lives.
class counted_wait {
 public:
  explicit counted_wait(descriptor_table& table) noexcept : table_(table) { table_.wait_began(); }
  ~counted_wait() { table_.wait_ended(); }
  counted_wait(const counted_wait&) = delete;
  counted_wait& operator=(const counted_wait&) = delete;

 private:
  descriptor_table& table_;
};

}  // namespace detail
}  // namespace v0
}  // namespace lagom
