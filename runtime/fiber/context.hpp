// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

// The machine context of a fiber: what is switched, and by what. Boost.Context does the jump; this file adds what belongs
// to a fiber beyond registers (C++ exception state, errno) and tells the sanitizers and valgrind what happens.
namespace lagom {
inline namespace v0 {
namespace detail {

/// What the C++ runtime and libc keep per OS thread but belongs to the fiber. The addresses are read once per worker:
/// the accessors are declared `const`, so the compiler would merge calls on both sides of a switch.
struct thread_state {
  void* exception_globals = nullptr;  // __cxa_eh_globals: caught exceptions, uncaught count
  int* error_number = nullptr;
  static thread_state of_this_thread() noexcept;
  bool exception_in_flight() const noexcept {
    // The second member of __cxa_eh_globals (Itanium C++ ABI) counts the uncaught exceptions.
    unsigned uncaught = 0;
    std::memcpy(&uncaught, static_cast<const std::byte*>(exception_globals) + sizeof(void*), sizeof uncaught);
    return uncaught != 0;
  }
};

struct machine_context;
/// Called on the new stack. Never returns: ends by a switch with `dying` set.
using context_entry = void (*)(machine_context& self, machine_context& previous);

/// A suspended or running flow of control. Lives in a control block, never on the stack it describes.
struct machine_context {
  void* stack_pointer = nullptr;        // fcontext_t while suspended
  machine_context* previous = nullptr;  // who switched here last
  std::uint64_t exceptions[2] = {0, 0};
  int error_number = 0;
  bool dying = false;                   // the next switch away is the last
  // Used once, at the start.
  context_entry entry = nullptr;
  void* owner = nullptr;                // for the entry: whose context this is
  // For the sanitizers; unused otherwise.
  void* fake_stack = nullptr;
  const void* stack_low = nullptr;
  std::size_t stack_size = 0;
  void* tsan_fiber = nullptr;
};

/// Prepares `fresh` to start at entry on the stack below `top`. O(1), touches the top of the stack.
void make_context(machine_context& fresh, std::byte* low, std::byte* top, context_entry entry) noexcept;

/// Makes the calling OS thread's own flow a context that can be switched from and back to.
void adopt_thread(machine_context& own) noexcept;

/// Leaves `from`, continues `to`; returns in `from` when somebody switches back, and tells who did.
/// Control bits of MXCSR and the x87 control word belong to the context; MXCSR's sticky exception flags belong to the
/// thread: reloading them costs about 50 ns whenever they differ.
machine_context& switch_context(machine_context& from, machine_context& to, const thread_state& thread) noexcept;

/// Ends what make_context began, once the flow has died or was never started.
void discard_context(machine_context& dead) noexcept;

/// Where the jump keeps what a suspended context goes on with, in bytes from machine_context::stack_pointer. From `size` on
/// it is the stack of whoever called the jump. All zero: unknown. Boost's versions differ, so it is looked at.
struct suspended_layout {
  std::uint32_t size = 0, pc = 0, fp = 0;
};
suspended_layout layout_of_suspended() noexcept;

/// Tell the tools about memory that serves as stacks: [low, high), guards left out.
void announce_stack(std::byte* low, std::byte* high) noexcept;
void forget_stack(std::byte* low, std::byte* high) noexcept;

/// 1, or more where tools make frames larger.
std::size_t stack_scale() noexcept;

}  // namespace detail
}  // namespace v0
}  // namespace lagom
