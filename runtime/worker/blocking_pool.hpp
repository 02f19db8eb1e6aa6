// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <lagom/blocking.hpp>
#include <lagom/detail/spin_lock.hpp>
#include <lagom/detail/wait_queue.hpp>

#include "os/thread.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

class runtime_core;

/// The OS threads of one runtime that run blocking() calls. Grows by one thread per call that finds nobody idle, up to a
/// limit; beyond it calls queue in order. A thread that was idle for keep_alive ends.
///
/// A call waits on the fiber's frame. Its stages, changed under lock_:
///
///   queued ──(a thread takes it)──► running ──► done
///      └────(its fiber is stopped, or no thread could be started)──► not run
///
/// Invariant: a queued call has a thread that will look for it: one that runs another call, one that is being started,
/// or one that was woken for it. So calls are queued only while threads_ > 0, and a thread ends only when it has found
/// nothing queued under the lock.
///
/// Threads end by themselves, so somebody has to join them: each one joins its predecessor as its last act, and stop()
/// joins the last. At most one ended thread waits to be joined.
class blocking_pool {
 public:
  blocking_pool(const runtime_core& core, unsigned most, std::int64_t keep_alive) noexcept
      : core_(core), most_(most), keep_alive_(keep_alive) {}
  blocking_pool(const blocking_pool&) = delete;
  blocking_pool& operator=(const blocking_pool&) = delete;

  /// On a fiber. See lagom::blocking().
  void run(blocking_call& call, const blocking_options& options);
  struct counts {
    std::size_t threads, calls;  // calls: running and queued
  };
  /// O(queued calls).
  counts look() const noexcept;
  /// Ends all threads. REQUIRES: no call is queued or running, and none will come.
  void stop() noexcept;

 private:
  struct job;
  struct member;  // one thread

  void submit(job& j);
  bool grow() noexcept;
  void serve(member& self) noexcept;
  job* next_job(member& self) noexcept;
  void perform(job& j, member& self) noexcept;
  void leave_and_unlock(member& self) noexcept LAGOM_THREAD_SAFETY(release_capability(lock_));
  void unlink(job& j) noexcept LAGOM_THREAD_SAFETY(requires_capability(lock_));

  const runtime_core& core_;
  const unsigned most_;
  const std::int64_t keep_alive_;

  mutable spin_lock lock_;
  job* first_ = nullptr;        // queued calls
  job* last_ = nullptr;
  wait_queue idle_;             // the longest idle is the last
  unsigned threads_ = 0;        // those being started too
  unsigned running_ = 0;        // calls
  bool stopping_ = false;
  member* ended_ = nullptr;     // waits to be joined
  wait_queue stopper_;          // stop(), until the last thread has ended
};

}  // namespace detail
}  // namespace v0
}  // namespace lagom
