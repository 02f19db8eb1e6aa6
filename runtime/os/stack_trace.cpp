// SPDX-License-Identifier: BSL-1.0
#include "stack_trace.hpp"

#include <signal.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>

#include "clock.hpp"
#include "fork.hpp"
#include "futex.hpp"
#include "thread.hpp"

namespace lagom::os {
namespace {

constexpr std::int64_t patience_ns = 100'000'000;

// What the handler is to do; written by one asker at a time, read by the thread whose id is in `whom`.
struct request {
  std::atomic<int> whom{0};
  std::atomic<std::uint32_t> answered{0};
  const std::byte* low = nullptr;
  const std::byte* high = nullptr;
  std::array<void*, 64> frames{};
  std::size_t depth = 0;
};
request wanted;
std::mutex one_asker;
struct sigaction others_action;

void registers_of(const void* context, void*& pc, const void*& frame) noexcept {
  const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  pc = reinterpret_cast<void*>(machine.gregs[REG_RIP]);
  frame = reinterpret_cast<const void*>(machine.gregs[REG_RBP]);
#elif defined(__aarch64__)
  pc = reinterpret_cast<void*>(machine.pc);
  frame = reinterpret_cast<const void*>(machine.regs[29]);
#else
  static_cast<void>(machine);
  pc = nullptr;
  frame = nullptr;
#endif
}

void answer(int signal, siginfo_t* info, void* context) noexcept {
  int whom = thread_id();
  // acquire: pairs with the store that asked. One answer for each question.
  if (whom != 0 && wanted.whom.compare_exchange_strong(whom, 0, std::memory_order_acquire)) {
    void* pc = nullptr;
    const void* frame = nullptr;
    registers_of(context, pc, frame);
    wanted.depth = walk_frames(pc, frame, wanted.low, wanted.high, wanted.frames);
    wanted.answered.fetch_add(1, std::memory_order_release);  // pairs with the asker's look
    futex_wake(wanted.answered, 1);
    return;
  }
  if ((others_action.sa_flags & SA_SIGINFO) != 0) {
    others_action.sa_sigaction(signal, info, context);
  } else if (others_action.sa_handler != SIG_DFL && others_action.sa_handler != SIG_IGN) {
    others_action.sa_handler(signal);
  }
}

void on_signal(int signal, siginfo_t* info, void* context) { answer(signal, info, context); }

// For the length of one question: whoever else uses the signal keeps it.
class handler_in_place {
 public:
  handler_in_place() noexcept {
    struct sigaction mine {};
    mine.sa_sigaction = &on_signal;
    mine.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    sigemptyset(&mine.sa_mask);
    is_in_place_ = ::sigaction(SIGURG, &mine, &others_action) == 0;
  }
  ~handler_in_place() {
    struct sigaction now {};
    // Somebody may have put theirs on top meanwhile: then ours stays below it and passes on.
    if (is_in_place_ && ::sigaction(SIGURG, &others_action, &now) == 0 && now.sa_sigaction != &on_signal) {
      ::sigaction(SIGURG, &now, nullptr);
    }
  }
  handler_in_place(const handler_in_place&) = delete;
  handler_in_place& operator=(const handler_in_place&) = delete;
  explicit operator bool() const noexcept { return is_in_place_; }

 private:
  bool is_in_place_ = false;
};

}  // namespace

__attribute__((no_sanitize("address", "thread"))) std::size_t walk_frames(void* pc, const void* frame, const std::byte* low,
                                                                        const std::byte* high, std::span<void*> out) noexcept {
  std::size_t depth = 0;
  if (out.empty()) return 0;
  out[depth++] = pc;
  while (depth < out.size()) {
    const auto* at = static_cast<const std::byte*>(frame);
    if (at < low || at + 2 * sizeof(void*) > high || reinterpret_cast<std::uintptr_t>(at) % alignof(void*) != 0) break;
    const auto* pair = reinterpret_cast<void* const*>(at);  // the caller's frame, and where it goes on
    if (pair[1] == nullptr) break;
    out[depth++] = pair[1];
    if (pair[0] <= frame) break;
    frame = pair[0];
  }
  return depth;
}

// Its owner may have been another thread.
void forget_stack_asker() noexcept { new (&one_asker) std::mutex; }

std::size_t stack_of_thread(int thread, const std::byte* low, const std::byte* high, std::span<void*> out) noexcept {
  const std::lock_guard hold(one_asker);
  const handler_in_place handler;
  if (!handler || thread == 0) return 0;
  wanted.low = low;
  wanted.high = high;
  const std::uint32_t before = wanted.answered.load(std::memory_order_relaxed);  // ours to read: one asker
  wanted.whom.store(thread, std::memory_order_release);                          // pairs with answer()
  const std::int64_t until = monotonic_ns() + patience_ns;
  if (signal_thread(thread, SIGURG) == 0) {
    while (wanted.answered.load(std::memory_order_acquire) == before &&  // pairs with answer()
           futex_wait(wanted.answered, before, until) != futex_result::expired) {
    }
  }
  // Taken back, or somebody is answering now: that does not take long, and must be over before the handler goes.
  int asked = thread;
  if (!wanted.whom.compare_exchange_strong(asked, 0, std::memory_order_acquire)) {  // pairs with answer()
    while (wanted.answered.load(std::memory_order_acquire) == before) thread_yield();  // the same
  } else {
    return 0;
  }
  const std::size_t depth = std::min(wanted.depth, out.size());
  std::copy_n(wanted.frames.begin(), depth, out.begin());
  return depth;
}

}  // namespace lagom::os
