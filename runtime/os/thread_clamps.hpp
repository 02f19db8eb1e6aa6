// SPDX-License-Identifier: BSL-1.0
#pragma once

// Utilization clamps of OS threads: what the kernel's choice of CPU and frequency is to take a thread's utilization for.
namespace lagom::os {

// Does this kernel know them? 0, or why not: ENOSYS, EOPNOTSUPP, EPERM. Changes nothing.
[[nodiscard]] int probe_thread_clamps() noexcept;

// Sets both clamps of a thread of this process, 0 … 1024; -1: back to none. The rest of its attributes stays. Returns 0 or errno.
// About a microsecond: the kernel takes the thread off its run queue and puts it back.
int set_thread_clamps(int thread, int min, int max) noexcept;

}  // namespace lagom::os
