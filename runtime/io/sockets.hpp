// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <system_error>

#include <lagom/detail/spin_lock.hpp>
#include <lagom/detail/wait_queue.hpp>
#include <lagom/net.hpp>

#include "descriptors.hpp"
#include "os/descriptor_wait.hpp"
#include "os/fork.hpp"
#include "stable_array.hpp"

// Sockets that net:: owns: since nobody else closes them, each is registered once, for edges in both directions, with the
// poller of the worker on which it waited first. A wait is then no system call at all.
//
//   a call (fiber or thread)                        deliver() on any worker
//   begin: lock; open? nobody else in this          lock; generation of the event == the entry's?
//     direction? ++users; unlock                    somebody waits there: unlink, ++users on their behalf
//   recv says EAGAIN                                else: ready[direction] = true
//   lock; ready? take it and try again              unlock; unpark
//   link the waiter, --users; unlock; park
//   again recv … end: lock; --users; unlock
//
// An edge between EAGAIN and the lock finds no waiter and leaves `ready`; an edge after it finds the waiter. What was ready
// when the socket was registered is an edge too. A stale `ready` costs one more EAGAIN.
//
// close() marks the entry and wakes both waiters with errc::closed; the descriptor is closed by the last call in progress,
// which is close() itself if the others are parked: a parked call does not count, its waker counts it in again. So the
// number is never given back while somebody is about to use it, and nobody ever sees bytes of its next owner.
//
// Invariant: users = calls between begin and end that are not parked; the descriptor is closed once closing && users == 0,
// and then the generation moves on, after which handles, events and tokens of the old one are refused. Entries are never
// freed. A waiter that was woken by close() must not touch the entry: it may be somebody else's.
//
// Two runtimes may use one socket, one after the other: the registration moves to the one that waits. The old poller may
// be gone, so it cannot be asked to forget; what it still reports is dropped, since the new one was asked later.
namespace lagom {
inline namespace v0 {
namespace detail {

struct socket_waiter : waiter {
  os::waker* thread = nullptr;  // a plain thread, woken in poll(2)
  bool only_close = false;      // pausing: readiness is not to wake it
  bool closed = false;          // woken by close()
};

struct alignas(64) socket_entry {
  spin_lock lock;
  bool closing = false;
  std::uint32_t generation = 1;
  int descriptor = -1;
  std::uint32_t users = 0;
  std::array<bool, 2> busy{}, ready{};
  std::uint8_t strangers = 0;  // waits in a row on other workers than the registration's
  std::array<socket_waiter*, 2> waiting{};
  std::array<std::int64_t, 2> deadline{never, never};
  os::poller* registered_with = nullptr;
  std::uint64_t registered_table = 0;  // serial; a poller of another table may be gone
  std::uint32_t index = 0;
  socket_entry* next_free = nullptr;
  std::atomic<std::uint32_t> forks{0};  // os::fork_count() of the process that knows who uses it

  bool is(socket_handle handle) const noexcept { return generation == handle.generation && !closing; }
};

/// All sockets of the process; never destroyed.
class socket_table {
 public:
  static socket_table& instance() noexcept;

  /// Takes the descriptor over. not_enough_memory: then it stays the caller's.
  std::error_code insert(int descriptor, socket_handle& out) noexcept;
  /// Nothing happens if it is closed already.
  void close(socket_handle handle) noexcept;
  /// Gives the descriptor back without closing it. errc::closed; device_or_resource_busy while calls are in progress.
  std::error_code release(socket_handle handle, int& descriptor) noexcept;
  /// Calls in progress go by the new deadline too.
  void set_deadline(socket_handle handle, direction where, std::int64_t expiry) noexcept;
  bool is_open(socket_handle handle) noexcept;

  /// An event that a poller of the table with this serial has reported.
  void deliver(const os::poll_event& event, std::uint64_t table) noexcept;

  /// In a child of fork(): the lock's owner is gone, and so is what it did.
  void forget_free() noexcept LAGOM_THREAD_SAFETY(no_thread_safety_analysis) {
    free_lock_.unlock();
    taking_lock_.unlock();
    free_ = nullptr;
  }

 private:
  friend class socket_use;
  socket_entry* find(socket_handle handle) noexcept {
    socket_entry* e = entries_.find(handle.index);
    // acquire: pairs with take_from_parent().
    if (e && e->forks.load(std::memory_order_acquire) != os::fork_count()) [[unlikely]] take_from_parent(*e);
    return e;
  }
  void take_from_parent(socket_entry& e) noexcept LAGOM_THREAD_SAFETY(no_thread_safety_analysis);
  socket_entry* take_free() noexcept;
  void put_free(socket_entry& e) noexcept;
  void finish_close(socket_entry& e, int descriptor) noexcept;

  stable_array<socket_entry, 64> entries_;
  spin_lock taking_lock_;
  spin_lock free_lock_;
  socket_entry* free_ LAGOM_THREAD_SAFETY(guarded_by(free_lock_)) = nullptr;
  std::uint32_t made_ LAGOM_THREAD_SAFETY(guarded_by(free_lock_)) = 0;
};

/// One call on a socket, from begin to end: while it lives and is not waiting, the descriptor stays open.
class socket_use {
 public:
  /// A call that reads or writes: one of each at a time, and not after the deadline.
  socket_use(socket_handle handle, direction where) noexcept;
  /// Any other call.
  explicit socket_use(socket_handle handle) noexcept;
  ~socket_use();
  socket_use(const socket_use&) = delete;
  socket_use& operator=(const socket_use&) = delete;

  /// errc::closed, device_or_resource_busy, timed_out: the call must not go on.
  std::error_code error() const noexcept { return error_; }
  int descriptor() const noexcept { return descriptor_; }

  /// Waits until it is worth trying again. errc::closed, errc::stopped, timed_out, the system's: the call must not go on.
  std::error_code wait() noexcept;
  /// Waits until the expiry has passed, or with an error as above. At most until the deadline.
  std::error_code pause(std::int64_t expiry) noexcept;
  /// Says a line in the log of the caller's runtime, if it has one, at most one in ten seconds.
  static void report(std::string_view line) noexcept;

 private:
  enum class readiness_wakes : std::uint8_t { no, yes };
  struct admission {
    bool must_wait = false;
    std::int64_t expiry = never;
    std::error_code error;
  };

  void begin(socket_handle handle) noexcept;
  admission admit(socket_waiter& w, io_home home, std::int64_t limit) noexcept;
  std::error_code register_with(io_home home) noexcept LAGOM_THREAD_SAFETY(requires_capability(entry_->lock));
  std::error_code wait(std::int64_t limit, readiness_wakes wakes) noexcept;
  std::error_code wait_as_fiber(io_home home, std::int64_t limit, readiness_wakes wakes) noexcept;
  std::error_code wait_as_thread(std::int64_t limit, readiness_wakes wakes) noexcept;
  std::error_code conclude(socket_waiter& w, std::error_code otherwise) noexcept;
  std::error_code was_woken(const socket_waiter& w) noexcept;

  socket_entry* entry_ = nullptr;  // null: the call does not count (any more)
  int descriptor_ = -1;
  direction where_ = direction::read;
  bool directed_ = false;
  std::error_code error_;
};

}  // namespace detail
}  // namespace v0
}  // namespace lagom
