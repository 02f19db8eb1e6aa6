// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

namespace lagom::trace {

enum class event_kind : std::uint8_t {
  running,          // the fiber got the worker
  parked,           // the fiber left it to wait; argument: the wait reason
  yielded,          // … of its own accord, still runnable
  preempted,        // … because it was asked to, still runnable
  exited,           // … for good
  spawned,          // argument: the spawning fiber, 0 if a foreign thread
  unparked,         // the fiber was made runnable; argument: the waker's fiber, 0 if none
  stolen,           // this worker took the fiber; argument: the victim's index
  worker_sleeping,  // the worker has nothing to do; argument: its timeout in ns, all ones if none
  worker_awake,     // argument: how many events the poller had
  mark,             // the program's own; argument: its number
};

[[nodiscard]] const char* name_of(event_kind kind) noexcept;

struct event {
  std::int64_t time_ns = 0;
  std::uint64_t fiber = 0;  // id; 0: none
  std::uint64_t argument = 0;
  event_kind kind = event_kind::mark;
};

}  // namespace lagom::trace
