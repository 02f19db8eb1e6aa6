// SPDX-License-Identifier: BSL-1.0
#include "signals.hpp"

#include <signal.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <new>

#include "assert.hpp"
#include "fork.hpp"

namespace lagom::os {
namespace {

constexpr int standard_error = 2;

// Guards installing and removing, never taken by the handler.
std::mutex installing;
int installs = 0;
// Ours is somewhere in the chain: on top, or below somebody's who came later.
bool in_chain = false;

// Read by the handler. previous_action is written only while ours is not in the chain.
std::atomic<describe_fault> describe_address{nullptr};
struct sigaction previous_action;

void take_default_action(int signal) noexcept {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(signal, &standard, nullptr);
}

// Sent by kill() and the like rather than by a fault: does not come again when the handler returns.
bool was_sent(const siginfo_t* info) noexcept { return info->si_code <= 0; }

// As if we were not there. Mask and SA_NODEFER are the kernel's doing: ours is installed with the previous ones.
void pass_on(int signal, siginfo_t* info, void* context) noexcept {
  const struct sigaction& previous = previous_action;
  const bool takes_info = (previous.sa_flags & SA_SIGINFO) != 0;
  if (!takes_info && previous.sa_handler == SIG_IGN && was_sent(info)) {
    return;
  }
  // An ignored fault kills all the same.
  if (!takes_info && (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN)) {
    take_default_action(signal);
    if (was_sent(info)) {
      ::raise(signal);  // blocked here; strikes when the handler returns
    }
    return;
  }
  if ((previous.sa_flags & static_cast<int>(SA_RESETHAND)) != 0) {
    take_default_action(signal);
  }
  if (takes_info) {
    previous.sa_sigaction(signal, info, context);
  } else {
    previous.sa_handler(signal);
  }
}

extern "C" void lagom_on_fault(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  // Acquire: pairs with the release in install_fault_handler, for what the function looks at.
  const describe_fault describe = describe_address.load(std::memory_order_acquire);
  if (describe != nullptr && !was_sent(info) && describe(info->si_addr, standard_error)) {
    // Returning runs into the guard again, now with the default action: the core shows the overflow itself.
    take_default_action(signal);
  } else {
    pass_on(signal, info, context);
  }
  errno = saved;
}

bool is_ours(const struct sigaction& action) noexcept {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == &lagom_on_fault;
}

}  // namespace

// Its owner may have been another thread.
void forget_fault_installer() noexcept { new (&installing) std::mutex; }

void install_fault_handler(describe_fault describe) noexcept {
  LAGOM_ASSERT(describe != nullptr);
  const std::lock_guard lock(installing);
  ++installs;
  if (!in_chain) {
    const int asked = ::sigaction(SIGSEGV, nullptr, &previous_action);
    LAGOM_ASSERT(asked == 0);
    struct sigaction ours {};
    ours.sa_sigaction = &lagom_on_fault;
    ours.sa_mask = previous_action.sa_mask;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | (previous_action.sa_flags & (SA_NODEFER | SA_RESTART));
    const int installed = ::sigaction(SIGSEGV, &ours, nullptr);
    LAGOM_ASSERT(installed == 0);
    in_chain = true;
  }
  // Release: pairs with the acquire in the handler.
  describe_address.store(describe, std::memory_order_release);
}

void remove_fault_handler() noexcept {
  const std::lock_guard lock(installing);
  LAGOM_ASSERT(installs > 0);
  if (--installs > 0) {
    return;
  }
  describe_address.store(nullptr, std::memory_order_release);  // pairs as in install_fault_handler
  struct sigaction present {};
  const int asked = ::sigaction(SIGSEGV, nullptr, &present);
  LAGOM_ASSERT(asked == 0);
  // Somebody's on top of ours will go on calling it. And it must not be installed over theirs again: the two would
  // call each other for ever.
  if (is_ours(present)) {
    ::sigaction(SIGSEGV, &previous_action, nullptr);
    in_chain = false;
  }
}

}  // namespace lagom::os
