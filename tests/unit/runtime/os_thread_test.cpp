// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "child.hpp"
#include "os/clock.hpp"
#include "os/thread.hpp"

namespace os = lagom::os;

namespace {

std::string own_name() {
  char name[16] = {};
  ::pthread_getname_np(::pthread_self(), name, sizeof name);
  return name;
}

}  // namespace

TEST_CASE("a thread runs its body under its name, and join sees what it wrote") {
  std::string name;
  int id = 0;
  os::native_thread thread("a-name-that-is-too-long", [&] {
    name = own_name();
    id = os::thread_id();
  });
  CHECK(thread.joinable());
  thread.join();
  CHECK_FALSE(thread.joinable());
  CHECK(name == "a-name-that-is-");
  CHECK(id > 0);
  CHECK(id != os::thread_id());
  CHECK(os::thread_id() == ::getpid());
}

TEST_CASE("moving hands the thread over; an empty one is not joinable") {
  std::atomic<bool> ran{false};
  os::native_thread first("first", [&] { ran.store(true); });
  os::native_thread second(std::move(first));
  CHECK_FALSE(first.joinable());
  os::native_thread third;
  CHECK_FALSE(third.joinable());
  third = std::move(second);
  CHECK(third.joinable());
  third.join();
  CHECK(ran.load());
}

TEST_CASE("a detached thread goes on") {
  std::atomic<bool> ran{false};
  {
    os::native_thread thread("detached", [&] { ran.store(true); });
    thread.detach();
  }
  while (!ran.load()) {
    os::thread_yield();
  }
}

TEST_CASE("destroying a joinable thread is a broken invariant") {
  const auto result = lagom::tests::run_in_child([] {
    ::signal(SIGABRT, SIG_DFL);
    os::native_thread thread("left", [] { ::pause(); });
  });
  CHECK(result.killed_by(SIGABRT));
  CHECK(result.output.find("destroyed before it was joined") != std::string::npos);
}

TEST_CASE("a refused thread is an exception, and the body is not leaked") {
  CHECK_THROWS_AS(os::native_thread("tiny", [] {}, 1), std::system_error);
  const auto never_called = [] { FAIL("ran"); };
  CHECK_THROWS_AS(os::native_thread("huge", never_called, std::size_t{1} << 60), std::system_error);
}

TEST_CASE("the signal mask is inherited") {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR2);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  bool inherited = false;
  os::native_thread thread("masked", [&] {
    sigset_t mask;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    inherited = sigismember(&mask, SIGUSR2) == 1;
  });
  thread.join();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  CHECK(inherited);
}

TEST_CASE("sleeping until a time is not early, in the past does not sleep") {
  const std::int64_t expiry = os::monotonic_ns() + 2'000'000;
  os::thread_sleep_until(expiry);
  CHECK(os::monotonic_ns() >= expiry);
  os::thread_sleep_until(0);
  os::thread_sleep_until(-1);
}

TEST_CASE("timer slack: the least is 1, 0 is not the default") {
  os::native_thread thread("slack", [] {
    os::set_timer_slack_ns(1);
    CHECK(::prctl(PR_GET_TIMERSLACK) == 1);
    os::set_timer_slack_ns(7000);
    CHECK(::prctl(PR_GET_TIMERSLACK) == 7000);
    os::set_timer_slack_ns(0);
    CHECK(::prctl(PR_GET_TIMERSLACK) == 1);
  });
  thread.join();
}

TEST_CASE("the stack's bounds hold a local variable and have the asked size") {
  const auto check_bounds = [](std::size_t least) {
    const os::stack_bounds bounds = os::current_stack_bounds();
    const std::byte local{};
    const std::byte* volatile here = &local;
    REQUIRE(bounds.low != nullptr);
    // Under AddressSanitizer locals may live elsewhere: then the frame itself.
    const auto* const frame = static_cast<const std::byte*>(__builtin_frame_address(0));
    CHECK(((here > bounds.low && here < bounds.high) || (frame > bounds.low && frame < bounds.high)));
    CHECK(static_cast<std::size_t>(bounds.high - bounds.low) >= least);
  };
  check_bounds(64 * 1024);
  os::native_thread thread("sized", [&] { check_bounds(512 * 1024); }, std::size_t{1024} * 1024);
  thread.join();
}

TEST_CASE("allowed CPUs follow the thread's affinity") {
  const unsigned all = os::allowed_cpu_count();
  CHECK(all >= 1);
  unsigned restricted = 0;
  os::native_thread thread("bound", [&] {
    cpu_set_t allowed;
    ::sched_getaffinity(0, sizeof allowed, &allowed);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &allowed)) {
        CPU_SET(cpu, &one);
        break;
      }
    }
    ::sched_setaffinity(0, sizeof one, &one);
    restricted = os::allowed_cpu_count();
  });
  thread.join();
  CHECK(restricted == 1);
  CHECK(os::allowed_cpu_count() == all);
}

TEST_CASE("a signal reaches the one thread") {
  static std::atomic<int> seen_by{0};
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { seen_by.store(os::thread_id()); };
  ::sigaction(SIGUSR1, &action, &before);
  std::atomic<int> id{0};
  os::native_thread thread("target", [&] {
    id.store(os::thread_id());
    while (seen_by.load() == 0) {
      os::thread_sleep_until(os::monotonic_ns() + 100'000);
    }
  });
  while (id.load() == 0) {
    os::thread_yield();
  }
  CHECK(os::signal_thread(id.load(), SIGUSR1) == 0);
  thread.join();
  CHECK(seen_by.load() == id.load());
  CHECK(os::signal_thread(id.load(), SIGUSR1) == ESRCH);
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST_CASE("an alternate stack is installed where there is none, and gone afterwards") {
  os::native_thread thread("alternate", [] {
    stack_t before{};
    ::sigaltstack(nullptr, &before);
    if ((before.ss_flags & SS_DISABLE) == 0) {
      stack_t none{};
      none.ss_flags = SS_DISABLE;
      ::sigaltstack(&none, nullptr);  // a sanitizer's
    }
    {
      const os::alternate_stack ours;
      CHECK(ours.is_installed());
      stack_t present{};
      ::sigaltstack(nullptr, &present);
      CHECK((present.ss_flags & SS_DISABLE) == 0);
      CHECK(present.ss_size >= 64 * 1024);
      const os::alternate_stack second;
      CHECK_FALSE(second.is_installed());
    }
    stack_t after{};
    ::sigaltstack(nullptr, &after);
    CHECK((after.ss_flags & SS_DISABLE) != 0);
    if ((before.ss_flags & SS_DISABLE) == 0) {
      ::sigaltstack(&before, nullptr);
    }
  });
  thread.join();
}

TEST_CASE("somebody else's alternate stack is left alone, before and after ours") {
  os::native_thread thread("others", [] {
    stack_t before{};
    ::sigaltstack(nullptr, &before);
    std::vector<std::byte> memory(64 * 1024);
    stack_t theirs{};
    theirs.ss_sp = memory.data();
    theirs.ss_size = memory.size();
    const auto is_theirs = [&] {
      stack_t present{};
      ::sigaltstack(nullptr, &present);
      return present.ss_sp == memory.data();
    };
    ::sigaltstack(&theirs, nullptr);
    {
      const os::alternate_stack ours;
      CHECK_FALSE(ours.is_installed());
      CHECK(is_theirs());
    }
    CHECK(is_theirs());
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    ::sigaltstack(&none, nullptr);
    {
      const os::alternate_stack ours;
      CHECK(ours.is_installed());
      ::sigaltstack(&theirs, nullptr);  // installed later, over ours
    }
    CHECK(is_theirs());
    ::sigaltstack(&before, nullptr);
  });
  thread.join();
}
