// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <thread>

#include "os/clock.hpp"
#include "os/futex.hpp"
#include "os/thread.hpp"

namespace os = lagom::os;
using os::futex_result;

namespace {

constexpr std::int64_t millisecond = 1'000'000;

void do_nothing(int) {}

}  // namespace

TEST_CASE("a word that differs does not block") {
  std::atomic<std::uint32_t> word{1};
  CHECK(os::futex_wait(word, 0, os::never) == futex_result::changed);
}

TEST_CASE("expiry: past, negative and soon") {
  std::atomic<std::uint32_t> word{0};
  errno = 4711;
  CHECK(os::futex_wait(word, 0, 0) == futex_result::expired);
  CHECK(os::futex_wait(word, 0, -5) == futex_result::expired);
  CHECK(errno == 4711);
  const std::int64_t expiry = os::monotonic_ns() + millisecond;
  CHECK(os::futex_wait(word, 0, expiry) == futex_result::expired);
  CHECK(os::monotonic_ns() >= expiry);
}

TEST_CASE("extreme expiries are accepted by the kernel") {
  // Far from never, but beyond what a clock will show: must not be refused as an invalid time.
  std::atomic<std::uint32_t> word{0};
  std::thread waker([&word] {
    os::thread_sleep_until(os::monotonic_ns() + millisecond);
    word.store(1);
    os::futex_wake(word, 1);
  });
  while (word.load() == 0) {
    CHECK(os::futex_wait(word, 0, os::never - 1) != futex_result::expired);
  }
  waker.join();
}

TEST_CASE("wake reaches the waiter, counted") {
  std::atomic<std::uint32_t> word{0};
  std::atomic<bool> done{false};
  CHECK(os::futex_wake(word, 1) == 0);
  std::thread waiter([&] {
    while (word.load() == 0) {
      os::futex_wait(word, 0, os::never);
    }
    done.store(true);
  });
  word.store(1);
  while (!done.load()) {
    CHECK(os::futex_wake(word, 1) <= 1);
    os::thread_yield();
  }
  waiter.join();
}

TEST_CASE("a hand-over back and forth loses no wake") {
  std::atomic<std::uint32_t> turn{0};
  constexpr std::uint32_t rounds = 2000;
  const auto play = [&turn](std::uint32_t parity) {
    for (std::uint32_t at = parity; at < rounds; at += 2) {
      for (std::uint32_t seen = turn.load(); seen != at; seen = turn.load()) {
        os::futex_wait(turn, seen, os::never);
      }
      turn.store(at + 1);
      os::futex_wake(turn, 1);
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  CHECK(turn.load() == rounds);
}

TEST_CASE("a signal is no expiry") {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = &do_nothing;  // without SA_RESTART
  ::sigaction(SIGUSR1, &action, &before);
  std::atomic<std::uint32_t> word{0};
  std::atomic<bool> done{false};
  std::atomic<int> expired{0};
  std::thread waiter([&] {
    while (word.load() == 0) {
      expired += os::futex_wait(word, 0, os::never) == futex_result::expired ? 1 : 0;
    }
    done.store(true);
  });
  for (int i = 0; i < 200; ++i) {
    ::pthread_kill(waiter.native_handle(), SIGUSR1);
    os::thread_yield();
  }
  word.store(1);
  while (!done.load()) {
    os::futex_wake(word, 1);
    os::thread_yield();
  }
  waiter.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  CHECK(expired.load() == 0);
}
