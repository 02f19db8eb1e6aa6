// SPDX-License-Identifier: BSL-1.0
#include "context.hpp"

#include <cerrno>
#include <cstring>

#include <boost/context/detail/fcontext.hpp>
#include <cxxabi.h>

#include "os/assert.hpp"
#include "os/thread.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define LAGOM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LAGOM_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define LAGOM_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LAGOM_TSAN 1
#endif
#endif

#if defined(LAGOM_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif
#if defined(LAGOM_TSAN)
#include <sanitizer/tsan_interface.h>
#endif
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#define LAGOM_VALGRIND 1
#endif
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace lagom {
inline namespace v0 {
namespace detail {

namespace fc = boost::context::detail;

namespace {

void after_switch(machine_context& self) noexcept {
#if defined(LAGOM_ASAN)
  __sanitizer_finish_switch_fiber(self.fake_stack, nullptr, nullptr);
#else
  static_cast<void>(self);
#endif
}

#if defined(__x86_64__)
constexpr std::uint32_t sticky_flags = 0x3f;

void bounce(fc::transfer_t from) {
  for (;;) from = fc::jump_fcontext(from.fctx, nullptr);
}

// Is the first word of a suspended frame its MXCSR? True for Boost 1.74 and 1.81; looked at, not believed.
bool frame_begins_with_mxcsr() noexcept {
  alignas(64) static std::byte stack[16384];
  const std::uint32_t before = _mm_getcsr();
  // Flush-to-zero and rounding up: a pattern that is not there by chance.
  const std::uint32_t pattern = (before & ~sticky_flags) ^ 0xc000;
  fc::fcontext_t other = fc::make_fcontext(stack + sizeof stack, sizeof stack, bounce);
  _mm_setcsr(before);
  fc::transfer_t t = fc::jump_fcontext(other, nullptr);  // it now waits with `before`
  std::uint32_t word = 0;
  std::memcpy(&word, t.fctx, sizeof word);
  bool same = (word & ~sticky_flags) == (before & ~sticky_flags);
  std::memcpy(t.fctx, &pattern, sizeof pattern);  // it will find the pattern loaded, and save it again
  t = fc::jump_fcontext(t.fctx, nullptr);
  _mm_setcsr(before);
  std::memcpy(&word, t.fctx, sizeof word);
  return same && (word & ~sticky_flags) == pattern;
}

// A new context has the function that it will call in the place of rbx. Around it: r12, r13, r14, r15, rbx, rbp, rip.
suspended_layout find_layout() noexcept {
  alignas(64) std::byte stack[4096];
  const auto* words = static_cast<const void* const*>(fc::make_fcontext(stack + sizeof stack, sizeof stack, bounce));
  for (std::uint32_t i = 4; i < 10; ++i) {
    if (words[i] == reinterpret_cast<const void*>(&bounce)) return {8 * (i + 3), 8 * (i + 2), 8 * (i + 1)};
  }
  return {};
}

const bool may_patch_mxcsr = frame_begins_with_mxcsr();

// Equal control bits: let the jump reload what is loaded already, which is cheap.
inline void keep_sticky_flags(void* stack_pointer) noexcept {
  if (!may_patch_mxcsr) return;
  const std::uint32_t now = _mm_getcsr();
  auto* saved = static_cast<std::uint32_t*>(stack_pointer);
  if (((*saved ^ now) & ~sticky_flags) == 0) *saved = now;
}
#else
inline void keep_sticky_flags(void*) noexcept {}
#if defined(__aarch64__)
// d8 to d15, x19 to x28, x29, x30, pc.
suspended_layout find_layout() noexcept { return {0xb0, 0xa0, 0x90}; }
#else
suspended_layout find_layout() noexcept { return {}; }
#endif
#endif

// Noinline: it must have the frame that the jump's trampoline called.
__attribute__((noinline)) void begin(fc::transfer_t t) {
  // The end of the stack, for everybody who walks it (unwinder, backtrace(), gdb, frame-pointer profilers): the trampoline
  // leaves an address of its own there, and no caller that could be found. Never returned to.
  auto** frame = static_cast<void**>(__builtin_frame_address(0));
  static_cast<void* volatile*>(frame)[0] = nullptr;
  static_cast<void* volatile*>(frame)[1] = nullptr;
#if defined(__x86_64__)
  asm volatile(".cfi_undefined rip");  // the same in the unwinder's words
#elif defined(__aarch64__)
  asm volatile(".cfi_undefined x30");
#endif
  auto& self = *static_cast<machine_context*>(t.data);
  self.previous->stack_pointer = t.fctx;
  after_switch(self);
  self.entry(self, *self.previous);
  os::fatal("a fiber's entry returned");
}

}  // namespace

thread_state thread_state::of_this_thread() noexcept {
  return {static_cast<void*>(abi::__cxa_get_globals()), &errno};
}

void make_context(machine_context& fresh, std::byte* low, std::byte* top, context_entry entry) noexcept {
  const std::size_t size = static_cast<std::size_t>(top - low);
  fresh.stack_pointer = fc::make_fcontext(top, size, begin);
  fresh.entry = entry;
  fresh.exceptions[0] = fresh.exceptions[1] = 0;
  fresh.error_number = 0;
  fresh.dying = false;
  fresh.fake_stack = nullptr;
  fresh.stack_low = low;
  fresh.stack_size = size;
#if defined(LAGOM_TSAN)
  fresh.tsan_fiber = __tsan_create_fiber(0);
#endif
}

suspended_layout layout_of_suspended() noexcept {
  static const suspended_layout found = find_layout();
  return found;
}

void adopt_thread(machine_context& own) noexcept {
#if defined(LAGOM_ASAN)
  const os::stack_bounds bounds = os::current_stack_bounds();
  own.stack_low = bounds.low;
  own.stack_size = static_cast<std::size_t>(bounds.high - bounds.low);
#endif
#if defined(LAGOM_TSAN)
  own.tsan_fiber = __tsan_get_current_fiber();
#endif
  static_cast<void>(own);
}

machine_context& switch_context(machine_context& from, machine_context& to, const thread_state& thread) noexcept {
  std::memcpy(from.exceptions, thread.exception_globals, sizeof from.exceptions);
  std::memcpy(thread.exception_globals, to.exceptions, sizeof to.exceptions);
  from.error_number = *thread.error_number;
  *thread.error_number = to.error_number;
  to.previous = &from;
  keep_sticky_flags(to.stack_pointer);
#if defined(LAGOM_ASAN)
  __sanitizer_start_switch_fiber(from.dying ? nullptr : &from.fake_stack, to.stack_low, to.stack_size);
#endif
#if defined(LAGOM_TSAN)
  __tsan_switch_to_fiber(to.tsan_fiber, 0);
#endif
  const fc::transfer_t t = fc::jump_fcontext(to.stack_pointer, &to);
  // `from` runs again, perhaps on another OS thread: nothing of `thread` may be used from here on.
  machine_context& previous = *from.previous;
  previous.stack_pointer = t.fctx;
  after_switch(from);
  return previous;
}

void discard_context(machine_context& dead) noexcept {
  dead.stack_pointer = nullptr;
#if defined(LAGOM_ASAN)
  // Frames that were left for good keep their poison otherwise.
  __asan_unpoison_memory_region(dead.stack_low, dead.stack_size);
#endif
#if defined(LAGOM_TSAN)
  __tsan_destroy_fiber(dead.tsan_fiber);
  dead.tsan_fiber = nullptr;
#endif
}

void announce_stack(std::byte* low, std::byte* high) noexcept {
#if defined(LAGOM_ASAN)
  __lsan_register_root_region(low, static_cast<std::size_t>(high - low));
#endif
#if defined(LAGOM_VALGRIND)
  // The id is not needed: valgrind forgets a stack when its memory is unmapped.
  static_cast<void>(VALGRIND_STACK_REGISTER(low, high));
#endif
  static_cast<void>(low);
  static_cast<void>(high);
}

void forget_stack(std::byte* low, std::byte* high) noexcept {
#if defined(LAGOM_ASAN)
  __lsan_unregister_root_region(low, static_cast<std::size_t>(high - low));
  __asan_unpoison_memory_region(low, static_cast<std::size_t>(high - low));
#endif
  static_cast<void>(low);
  static_cast<void>(high);
}

std::size_t stack_scale() noexcept {
#if defined(LAGOM_ASAN) || defined(LAGOM_TSAN)
  return 4;
#else
  return 1;
#endif
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
