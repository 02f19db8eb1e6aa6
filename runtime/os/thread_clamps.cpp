// SPDX-License-Identifier: BSL-1.0
#include "thread_clamps.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace lagom::os {

namespace {

// The kernel's struct sched_attr as of 5.3; the C library has none.
struct kernel_attributes {
  std::uint32_t size = sizeof(kernel_attributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0, deadline = 0, period = 0;
  std::uint32_t util_min = 0, util_max = 0;
};
static_assert(sizeof(kernel_attributes) == 56);

constexpr std::uint64_t keep_policy = 0x08, keep_params = 0x10, clamp_min = 0x20, clamp_max = 0x40;

}  // namespace

int probe_thread_clamps() noexcept {
  kernel_attributes a;
  if (::syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) != 0) return errno;  // 0: the calling thread
  // Every thread has a max clamp, 1024 if nobody has asked; a kernel that fills in nothing has no clamps.
  return a.size < sizeof a || a.util_max == 0 ? EOPNOTSUPP : 0;
}

int set_thread_clamps(int thread, int min, int max) noexcept {
  kernel_attributes a;
  a.flags = keep_policy | keep_params | clamp_min | clamp_max;
  a.util_min = static_cast<std::uint32_t>(min);
  a.util_max = static_cast<std::uint32_t>(max);
  return ::syscall(SYS_sched_setattr, thread, &a, 0) == 0 ? 0 : errno;
}

}  // namespace lagom::os
