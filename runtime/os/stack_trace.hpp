// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <span>

namespace lagom::os {

// Return addresses along the frame pointers, beginning with `pc`, as long as they lie within [low, high) and go upwards;
// code without frame pointers cuts the walk short, it does not harm. Async-signal-safe. Returns how many.
std::size_t walk_frames(void* pc, const void* frame, const std::byte* low, const std::byte* high, std::span<void*> out) noexcept;

// The same for what another thread of this process (thread_id()) does at this moment on the stack [low, high): it is
// interrupted by SIGURG, which stays whoever else's it was. 0 if the thread does not answer within 100 ms, or is
// elsewhere. One caller at a time, others wait.
std::size_t stack_of_thread(int thread, const std::byte* low, const std::byte* high, std::span<void*> out) noexcept;

}  // namespace lagom::os
