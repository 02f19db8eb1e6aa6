// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "child.hpp"
#include "os/memory.hpp"
#include "os/signals.hpp"
#include "os/thread.hpp"
#include "sanitizer.hpp"

namespace os = lagom::os;
using lagom::tests::child_result;
using lagom::tests::run_in_child;

namespace {

// All of this runs in forked children: one story per process.
std::byte* guard = nullptr;

void say(const char* text) { [[maybe_unused]] const auto written = ::write(2, text, std::strlen(text)); }

bool describe(void* address, int fd) noexcept {
  auto* const at = static_cast<std::byte*>(address);
  if (guard == nullptr || at < guard || at >= guard + os::page_size()) {
    return false;
  }
  constexpr char line[] = "our guard\n";
  [[maybe_unused]] const auto written = ::write(fd, line, sizeof line - 1);
  return true;
}

void set_up_guard() {
  auto* const base = static_cast<std::byte*>(os::reserve(2 * os::page_size()));
  guard = base;
  os::install_guard(guard, os::page_size());
}

void touch(std::byte* address) { *const_cast<volatile std::byte*>(address) = std::byte{1}; }

std::byte* nowhere() {
  static auto* const page = static_cast<std::byte*>(
      ::mmap(nullptr, os::page_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  return page;
}

// The sanitizers have handlers of their own: the stories begin as in a plain process.
void begin_plain() { ::signal(SIGSEGV, SIG_DFL); }

using info_handler = void (*)(int, siginfo_t*, void*);

void install(info_handler handler, int flags, int masked = 0) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  if (masked != 0) {
    sigaddset(&action.sa_mask, masked);
  }
  ::sigaction(SIGSEGV, &action, nullptr);
}

void exit_with_story(int, siginfo_t* info, void*) {
  say(info->si_addr == nowhere() ? "app saw nowhere\n" : "app saw something else\n");
  ::_exit(40);
}

bool is_blocked(int signal) {
  sigset_t blocked;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  return sigismember(&blocked, signal) == 1;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("a touched guard: one line, then death by SIGSEGV") {
  const child_result result = run_in_child([] {
    begin_plain();
    set_up_guard();
    os::install_fault_handler(&describe);
    touch(guard);
  });
  CHECK(result.killed_by(SIGSEGV));
  CHECK(result.output == "our guard\n");
}

TEST_CASE("a touched guard does not end in the application's handler") {
  const child_result result = run_in_child([] {
    install(&exit_with_story, 0);
    set_up_guard();
    os::install_fault_handler(&describe);
    touch(guard);
  });
  CHECK(result.killed_by(SIGSEGV));
  CHECK(result.output == "our guard\n");
}

TEST_CASE("any other address: as if we were not there") {
  SUBCASE("default action") {
    const child_result result = run_in_child([] {
      begin_plain();
      set_up_guard();
      os::install_fault_handler(&describe);
      touch(nowhere());
    });
    CHECK(result.killed_by(SIGSEGV));
    CHECK(result.output.empty());
  }
  SUBCASE("the application's handler, with its arguments") {
    const child_result result = run_in_child([] {
      install(&exit_with_story, 0);
      set_up_guard();
      os::install_fault_handler(&describe);
      touch(nowhere());
    });
    CHECK(result.exited_with(40));
    CHECK(result.output == "app saw nowhere\n");
  }
  SUBCASE("an old style handler") {
    const child_result result = run_in_child([] {
      ::signal(SIGSEGV, [](int signal) { ::_exit(signal == SIGSEGV ? 41 : 42); });
      os::install_fault_handler(&describe);
      touch(nowhere());
    });
    CHECK(result.exited_with(41));
  }
  SUBCASE("a handler that repairs the fault, twice") {
    const child_result result = run_in_child([] {
      install([](int, siginfo_t* info, void*) { ::mprotect(info->si_addr, 1, PROT_READ | PROT_WRITE); }, 0);
      os::install_fault_handler(&describe);
      touch(nowhere());
      ::mprotect(nowhere(), os::page_size(), PROT_NONE);
      touch(nowhere());
      ::_exit(*nowhere() == std::byte{1} ? 43 : 44);
    });
    CHECK(result.exited_with(43));
  }
  SUBCASE("a handler that jumps out") {
    static sigjmp_buf out;
    const child_result result = run_in_child([] {
      install([](int, siginfo_t*, void*) { siglongjmp(out, 1); }, 0);
      os::install_fault_handler(&describe);
      if (sigsetjmp(out, 1) == 0) {
        touch(nowhere());
        ::_exit(1);
      }
      ::_exit(is_blocked(SIGSEGV) ? 2 : 45);
    });
    CHECK(result.exited_with(45));
  }
  SUBCASE("a handler for one time only") {
    const child_result result = run_in_child([] {
      install([](int, siginfo_t*, void*) { say("once\n"); }, static_cast<int>(SA_RESETHAND));
      os::install_fault_handler(&describe);
      touch(nowhere());
    });
    CHECK(result.killed_by(SIGSEGV));
    CHECK(result.output == "once\n");
  }
}

TEST_CASE("the previous handler runs under its own mask") {
  if (lagom::tests::under_thread_sanitizer) {
    MESSAGE("the sanitizer's own handler blocks everything, whatever we ask for");
    return;
  }
  const auto report = [](int, siginfo_t*, void*) {
    ::_exit((is_blocked(SIGUSR1) ? 1 : 0) + (is_blocked(SIGUSR2) ? 2 : 0) + (is_blocked(SIGSEGV) ? 4 : 0));
  };
  const child_result masked = run_in_child([&] {
    install(report, 0, SIGUSR1);
    os::install_fault_handler(&describe);
    touch(nowhere());
  });
  CHECK(masked.exited_with(1 + 4));
  const child_result not_deferred = run_in_child([&] {
    install(report, SA_NODEFER, SIGUSR2);
    os::install_fault_handler(&describe);
    touch(nowhere());
  });
  CHECK(not_deferred.exited_with(2));
}

TEST_CASE("a SIGSEGV that somebody sent") {
  SUBCASE("kills by default") {
    const child_result result = run_in_child([] {
      begin_plain();
      os::install_fault_handler(&describe);
      ::raise(SIGSEGV);
    });
    CHECK(result.killed_by(SIGSEGV));
  }
  SUBCASE("is ignored if it was") {
    const child_result result = run_in_child([] {
      ::signal(SIGSEGV, SIG_IGN);
      os::install_fault_handler(&describe);
      ::raise(SIGSEGV);
      ::raise(SIGSEGV);
      ::_exit(46);
    });
    CHECK(result.exited_with(46));
  }
  SUBCASE("but a fault kills even then") {
    const child_result result = run_in_child([] {
      ::signal(SIGSEGV, SIG_IGN);
      os::install_fault_handler(&describe);
      touch(nowhere());
    });
    CHECK(result.killed_by(SIGSEGV));
  }
}

TEST_CASE("removing puts the previous handler back; installs nest") {
  const child_result result = run_in_child([] {
    install(&exit_with_story, 0);
    set_up_guard();
    os::install_fault_handler(&describe);
    os::install_fault_handler(&describe);
    os::remove_fault_handler();
    struct sigaction action {};
    ::sigaction(SIGSEGV, nullptr, &action);
    if (action.sa_sigaction == &exit_with_story) {
      ::_exit(1);
    }
    os::remove_fault_handler();
    ::sigaction(SIGSEGV, nullptr, &action);
    if (action.sa_sigaction != &exit_with_story || (action.sa_flags & SA_ONSTACK) != 0) {
      ::_exit(2);
    }
    ::_exit(47);
  });
  CHECK(result.exited_with(47));
}

TEST_CASE("somebody's handler on top of ours: it stays, calls us, and there is no circle") {
  static struct sigaction below;
  const child_result result = run_in_child([] {
    begin_plain();
    set_up_guard();
    os::install_fault_handler(&describe);
    struct sigaction top {};
    top.sa_flags = SA_SIGINFO;
    top.sa_sigaction = [](int signal, siginfo_t* info, void* context) {
      say("top\n");
      below.sa_sigaction(signal, info, context);
    };
    ::sigaction(SIGSEGV, &top, &below);
    os::remove_fault_handler();
    struct sigaction present {};
    ::sigaction(SIGSEGV, nullptr, &present);
    if (present.sa_sigaction != top.sa_sigaction) {
      ::_exit(1);
    }
    os::install_fault_handler(&describe);
    touch(guard);
  });
  CHECK(result.killed_by(SIGSEGV));
  CHECK(count_of(result.output, "top\n") == 1);
  CHECK(count_of(result.output, "our guard\n") == 1);
}

namespace {

#pragma GCC diagnostic ignored "-Winfinite-recursion"

std::byte* stack_end = nullptr;

bool describe_stack(void* address, int fd) noexcept {
  auto* const at = static_cast<std::byte*>(address);
  // The system's guard below a thread's stack.
  if (at >= stack_end || at < stack_end - 2 * os::page_size()) {
    return false;
  }
  constexpr char line[] = "stack overflow\n";
  [[maybe_unused]] const auto written = ::write(fd, line, sizeof line - 1);
  return true;
}

[[gnu::noinline]] int descend(int depth) {
  volatile char frame[200];
  frame[0] = static_cast<char>(depth);
  // The read comes after the call, so that the recursion cannot be turned into a loop.
  const int deeper = descend(depth + 1);
  return deeper + frame[0];
}

}  // namespace

TEST_CASE("a real overflow is reported from the alternate stack") {
  const child_result result = run_in_child([] {
    begin_plain();
    os::install_fault_handler(&describe_stack);
    os::native_thread thread(
        "overflower",
        [] {
          const os::alternate_stack handlers;
          stack_end = os::current_stack_bounds().low;
          ::_exit(descend(0) == 0 ? 1 : 2);
        },
        std::size_t{256} * 1024);
    thread.join();
  });
  CHECK(result.killed_by(SIGSEGV));
  CHECK(result.output == "stack overflow\n");
}
