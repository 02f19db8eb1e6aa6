// SPDX-License-Identifier: BSL-1.0
// What a thread is made of: its id, its CPUs, its stacks. Apart from thread.cpp, which the fake OS replaces.
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string_view>

#include "thread.hpp"

namespace lagom::os {
namespace {

struct free_cpu_set {
  void operator()(cpu_set_t* set) const noexcept { CPU_FREE(set); }
};

// The handlers' own need, on top of what the kernel wants for its frame: fault reports, other people's handlers.
constexpr std::size_t handler_room = std::size_t{64} * 1024;

std::size_t kernel_frame_size() noexcept {
#if defined(AT_MINSIGSTKSZ)
  const unsigned long told = ::getauxval(AT_MINSIGSTKSZ);  // 11,952 bytes where AMX is possible
  if (told != 0) {
    return told;
  }
#endif
  return 8192;
}

}  // namespace

std::int64_t cpu_ns_of_thread(int thread) noexcept {
  // The kernel's encoding of "the CPU clock of this thread"; pthread_getcpuclockid() wants a pthread_t that may be gone.
  constexpr unsigned per_thread = 4, scheduler_clock = 2;
  const auto clock = static_cast<clockid_t>((~static_cast<unsigned>(thread) << 3) | per_thread | scheduler_clock);
  timespec used{};
  return ::clock_gettime(clock, &used) == 0 ? std::int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec : 0;
}

bool is_thread_blocked(int thread) noexcept {
  char name[64];
  std::snprintf(name, sizeof name, "/proc/self/task/%d/stat", thread);
  const int file = ::open(name, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char text[128];
  const ssize_t size = ::read(file, text, sizeof text);
  ::close(file);
  // "id (name) state …"; the name may hold anything, but has at most 16 bytes.
  const std::string_view line(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  const std::size_t at = line.rfind(')');
  return at != std::string_view::npos && at + 2 < line.size() && (line[at + 2] == 'S' || line[at + 2] == 'D');
}

std::size_t page_size() noexcept {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

int thread_id() noexcept { return static_cast<int>(::syscall(SYS_gettid)); }

int signal_thread(int thread, int signal) noexcept {
  const int saved = errno;
  const long result = ::syscall(SYS_tgkill, ::getpid(), thread, signal);
  const int error = result == 0 ? 0 : errno;
  errno = saved;
  return error;
}

unsigned allowed_cpu_count() noexcept {
  // The kernel refuses sets smaller than its own: grow until it is content.
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 4) {
    const std::unique_ptr<cpu_set_t, free_cpu_set> set(CPU_ALLOC(cpus));
    if (set == nullptr) {
      return 1;
    }
    const std::size_t size = CPU_ALLOC_SIZE(cpus);
    CPU_ZERO_S(size, set.get());
    if (::sched_getaffinity(0, size, set.get()) == 0) {
      return static_cast<unsigned>(std::max(1, CPU_COUNT_S(size, set.get())));
    }
    if (errno != EINVAL) {
      return 1;
    }
  }
  return 1;
}

stack_bounds current_stack_bounds() noexcept {
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) {
    return {};
  }
  void* low = nullptr;
  std::size_t size = 0;
  std::size_t guard = 0;
  const bool known = ::pthread_attr_getstack(&attributes, &low, &size) == 0;
  ::pthread_attr_getguardsize(&attributes, &guard);
  ::pthread_attr_destroy(&attributes);
  if (!known || low == nullptr) {
    return {};
  }
  auto* const first = static_cast<std::byte*>(low);
  return {first, first + size};
}

alternate_stack::alternate_stack() noexcept {
  stack_t present{};
  if (::sigaltstack(nullptr, &present) != 0 || (present.ss_flags & SS_DISABLE) == 0) {
    return;
  }
  const std::size_t page = page_size();
  const std::size_t usable = (kernel_frame_size() + handler_room + page - 1) / page * page;
  const std::size_t size = usable + page;
  void* const mapping = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    return;
  }
  // A handler that overflows must not write into a neighbour. Without the guard it is still better than no stack.
  ::mprotect(mapping, page, PROT_NONE);
  stack_t ours{};
  ours.ss_sp = static_cast<std::byte*>(mapping) + page;
  ours.ss_size = usable;
  if (::sigaltstack(&ours, nullptr) != 0) {
    ::munmap(mapping, size);
    return;
  }
  mapping_ = mapping;
  mapping_size_ = size;
}

alternate_stack::~alternate_stack() {
  if (mapping_ == nullptr) {
    return;
  }
  stack_t present{};
  const auto* const ours = static_cast<std::byte*>(mapping_) + page_size();
  if (::sigaltstack(nullptr, &present) == 0 && present.ss_sp == ours) {
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    // Refused only from inside a handler on it; then it must stay mapped.
    if (::sigaltstack(&none, nullptr) != 0) {
      return;
    }
  }
  ::munmap(mapping_, mapping_size_);
}

}  // namespace lagom::os
