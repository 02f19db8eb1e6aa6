// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

// For functions that read thread-local state on behalf of code that may resume on another thread: never inlined, and
// nothing learnt about them, link-time optimisation included.
#if defined(__clang__)
#define LAGOM_OUT_OF_LINE __attribute__((noinline))
#else
#define LAGOM_OUT_OF_LINE __attribute__((noipa))
#endif

// For the way out of a fiber: one frame for all that its file calls there. Not with link-time optimization (LAGOM_LTO, set by
// the build), where GCC would take in the whole library, again and again.
#if defined(LAGOM_LTO)
#define LAGOM_ONE_FRAME
#else
#define LAGOM_ONE_FRAME __attribute__((flatten))
#endif

namespace lagom::os {

// An OS thread. Signal mask and affinity as inherited from the creator. Like std::thread: must be joined or detached
// before it is destroyed (asserted); an exception that leaves the body terminates.
class native_thread {
 public:
  native_thread() noexcept = default;

  // name: at most 15 bytes are shown by the system. stack_size 0: the system's default.
  // Throws std::system_error (naming the limit) when the system refuses, std::bad_alloc.
  native_thread(std::string name, std::function<void()> body, std::size_t stack_size = 0);

  native_thread(native_thread&& other) noexcept;
  native_thread& operator=(native_thread&& other) noexcept;  // REQUIRES: *this is not joinable
  native_thread(const native_thread&) = delete;
  native_thread& operator=(const native_thread&) = delete;
  ~native_thread();

  [[nodiscard]] bool joinable() const noexcept { return joinable_; }
  void join() noexcept;
  void detach() noexcept;

  // The handle pthread functions take. REQUIRES: joinable.
  [[nodiscard]] std::uintptr_t handle() const noexcept { return handle_; }

 private:
  std::uintptr_t handle_ = 0;
  bool joinable_ = false;
};

// Tells the CPU that this is a spin loop.
inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#else
  asm volatile("" ::: "memory");
#endif
}

// Gives the CPU to another OS thread, if one wants it.
void thread_yield() noexcept;

// Blocks the OS thread until expiry_ns (absolute, CLOCK_MONOTONIC); signals do not shorten it.
void thread_sleep_until(std::int64_t expiry_ns) noexcept;

// Name of the calling thread, cut to 15 bytes.
void set_thread_name(const char* name) noexcept;

// How much later than asked the kernel may end the calling thread's sleeps. Default 50 us; 1 is the least.
void set_timer_slack_ns(std::uint64_t slack) noexcept;

// How the kernel schedules the calling thread: SCHED_OTHER, SCHED_BATCH, SCHED_IDLE. Returns 0 or errno (EPERM: the way
// back from idle needs a permission that the way there does not).
enum class thread_class { normal, batch, idle };
int set_thread_class(thread_class wanted) noexcept;

// Nice value of the calling thread, -20 to 19. Set: returns 0 or errno (EACCES: lower than the present one).
[[nodiscard]] int thread_nice() noexcept;
int set_thread_nice(int nice) noexcept;

[[nodiscard]] std::size_t page_size() noexcept;

// The kernel's id of the calling thread. Not cached: right after fork, and on a fiber that has moved.
[[nodiscard]] int thread_id() noexcept;

// Directs a signal at one thread of this process. Returns 0 or errno.
int signal_thread(int thread, int signal) noexcept;

// CPU time another thread of this process has used, nanoseconds; 0 if there is no such thread. A system call.
[[nodiscard]] std::int64_t cpu_ns_of_thread(int thread) noexcept;

// Does another thread of this process wait in the kernel for something other than a CPU (a lock, a page, a disk)? Reads /proc.
[[nodiscard]] bool is_thread_blocked(int thread) noexcept;

// CPUs the calling thread may run on (taskset, cpuset); at least 1. Knows nothing of quotas: see limits.hpp.
[[nodiscard]] unsigned allowed_cpu_count() noexcept;

struct stack_bounds {
  std::byte* low = nullptr;   // first usable byte
  std::byte* high = nullptr;  // one past the last
};

// The calling OS thread's own stack, as it was given at its start; {nullptr, nullptr} if unknown.
[[nodiscard]] stack_bounds current_stack_bounds() noexcept;

// A stack for signal handlers on the calling thread, as long as this object lives: only if the thread has none.
// Somebody else's is left alone, now and at destruction. Created and destroyed by the same thread.
class alternate_stack {
 public:
  alternate_stack() noexcept;  // out of memory: not installed, no error
  ~alternate_stack();
  alternate_stack(const alternate_stack&) = delete;
  alternate_stack& operator=(const alternate_stack&) = delete;

  [[nodiscard]] bool is_installed() const noexcept { return mapping_ != nullptr; }

 private:
  void* mapping_ = nullptr;
  std::size_t mapping_size_ = 0;
};

}  // namespace lagom::os
