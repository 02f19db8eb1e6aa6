// SPDX-License-Identifier: BSL-1.0
#include "fork.hpp"

#include <pthread.h>

#include <cerrno>

#include "assert.hpp"

namespace lagom::os {

std::atomic<std::uint32_t> forks_of_process{0};

namespace {

std::atomic<void (*)() noexcept> told{nullptr};

void child_begins() {
  const int saved = errno;
  // relaxed, all of it: this thread is alone.
  forks_of_process.store(forks_of_process.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  forget_fault_installer();
  forget_signal_watches();
  forget_stack_asker();
  if (auto* const in_child = told.load(std::memory_order_relaxed)) in_child();
  errno = saved;
}

}  // namespace

void watch_forks(void (*in_child)() noexcept) noexcept {
  told.store(in_child, std::memory_order_relaxed);  // fork() is called later, or sees nothing worth telling
  static const int registered = ::pthread_atfork(nullptr, nullptr, child_begins);
  LAGOM_ASSERT_MSG(registered == 0, "pthread_atfork: out of memory");
}

}  // namespace lagom::os
