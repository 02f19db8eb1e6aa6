// SPDX-License-Identifier: BSL-1.0
#include <sched.h>
#include <sys/resource.h>

#include <cerrno>

#include "thread.hpp"

namespace lagom::os {

int set_thread_class(thread_class wanted) noexcept {
  const int policy = wanted == thread_class::idle ? SCHED_IDLE : wanted == thread_class::batch ? SCHED_BATCH : SCHED_OTHER;
  const sched_param none{};
  return ::sched_setscheduler(0, policy, &none) == 0 ? 0 : errno;  // 0: the calling thread
}

int thread_nice() noexcept {
  // Linux gives every thread a nice value of its own. -1 may be a value; the call cannot fail for the caller itself.
  return ::getpriority(PRIO_PROCESS, static_cast<id_t>(thread_id()));
}

int set_thread_nice(int nice) noexcept {
  return ::setpriority(PRIO_PROCESS, static_cast<id_t>(thread_id()), nice) == 0 ? 0 : errno;
}

}  // namespace lagom::os
