// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include <lagom/io.hpp>
#include <lagom/lagom.hpp>

using namespace std::chrono_literals;
using lagom::io::signal_set;
using std::chrono::steady_clock;

namespace {

lagom::runtime_options with_workers(unsigned n) {
  lagom::runtime_options options;
  options.workers = n;
  return options;
}

int handler_calls = 0;

bool has_handler(int number, void (*handler)(int)) {
  struct sigaction now {};
  CHECK(::sigaction(number, nullptr, &now) == 0);
  return now.sa_handler == handler;
}

}  // namespace

TEST_CASE("a signal wakes the fiber that waits for it") {
  lagom::runtime rt(with_workers(2));
  signal_set signals{SIGUSR1, SIGUSR2};
  std::atomic<int> last{0};
  lagom::fiber waiter = rt.spawn([&] {
    for (int i = 0; i < 200; ++i) last = signals.wait();
  });
  for (int i = 0; i < 100; ++i) {
    for (const int number : {SIGUSR1, SIGUSR2}) {
      ::kill(::getpid(), number);
      while (last != number) std::this_thread::yield();
    }
  }
  waiter.join();
}

TEST_CASE("what came before the wait is not lost, twice counts once, the lowest comes first") {
  signal_set signals{SIGUSR1, SIGUSR2};
  ::raise(SIGUSR2);
  ::raise(SIGUSR1);
  ::raise(SIGUSR1);
  auto check = [&] {
    std::error_code ec;
    CHECK(signals.wait(ec) == SIGUSR1);
    CHECK(signals.wait(ec) == SIGUSR2);
    CHECK(signals.wait_until(steady_clock::now() + 2ms, ec) == 0);
    CHECK(ec == std::errc::timed_out);
  };
  check();
  ::raise(SIGUSR1);
  ::raise(SIGUSR2);
  lagom::runtime rt(with_workers(1));
  rt.run(check);
}

TEST_CASE("every set is told") {
  signal_set first{SIGUSR1}, second{SIGUSR1, SIGHUP};
  ::raise(SIGUSR1);
  CHECK(first.wait() == SIGUSR1);
  CHECK(second.wait() == SIGUSR1);
  ::raise(SIGHUP);
  CHECK(second.wait() == SIGHUP);
  std::error_code ec;
  CHECK(first.wait_until(steady_clock::now(), ec) == 0);
}

TEST_CASE("a stop ends the wait") {
  lagom::runtime rt(with_workers(1));
  signal_set signals{SIGUSR1};
  lagom::fiber waiter = rt.spawn([&] {
    std::error_code ec;
    CHECK(signals.wait(ec) == 0);
    CHECK(ec == lagom::errc::stopped);
  });
  std::this_thread::sleep_for(2ms);
  waiter.request_stop();
  waiter.join();
}

TEST_CASE("dispositions come back with the last set") {
  void (*const before)(int) = [](int) { ++handler_calls; };
  ::signal(SIGUSR1, before);
  {
    const signal_set first{SIGUSR1};
    {
      const signal_set second{SIGUSR1};
      CHECK(!has_handler(SIGUSR1, before));
    }
    CHECK(!has_handler(SIGUSR1, before));
    ::raise(SIGUSR1);
    CHECK(handler_calls == 0);
  }
  CHECK(has_handler(SIGUSR1, before));
  ::raise(SIGUSR1);
  CHECK(handler_calls == 1);
  ::signal(SIGUSR1, SIG_DFL);
}

TEST_CASE("what cannot be waited for is refused and changes nothing") {
  CHECK_THROWS_AS(signal_set({}), std::invalid_argument);
  for (const int number : {0, -1, 65, SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    CHECK_THROWS_AS(signal_set({SIGUSR1, number}), std::invalid_argument);
  }
  // The C library keeps 32 and 33; sigaction is what refuses them.
  CHECK_THROWS_AS(signal_set({SIGUSR1, 32}), std::invalid_argument);
  CHECK(has_handler(SIGUSR1, SIG_DFL));
  std::vector<std::unique_ptr<signal_set>> sets;
  for (int i = 0; i < 32; ++i) sets.push_back(std::make_unique<signal_set>(std::initializer_list<int>{SIGUSR1}));
  CHECK_THROWS_AS(signal_set({SIGUSR1}), std::system_error);
  sets.clear();
  const signal_set again{SIGUSR1};
}

TEST_CASE("sets come and go while signals arrive") {
  const signal_set keeps_the_disposition{SIGUSR1};
  std::atomic<bool> done{false};
  std::thread sender([&] {
    while (!done) ::kill(::getpid(), SIGUSR1);
  });
  for (int i = 0; i < 300; ++i) {
    signal_set set{SIGUSR1};
    CHECK(set.wait() == SIGUSR1);
  }
  done = true;
  sender.join();
}
