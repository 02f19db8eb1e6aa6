// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "child.hpp"
#include "os/clock.hpp"
#include "os/poller.hpp"
#include "os/thread.hpp"

namespace os = lagom::os;
using os::any_of;
using os::interest;
using os::readiness;

namespace {

constexpr std::int64_t millisecond = 1'000'000;
constexpr std::int64_t no_limit = -1;

class socket_pair {
 public:
  socket_pair() { REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends_) == 0); }
  ~socket_pair() {
    close_end(0);
    close_end(1);
  }
  socket_pair(const socket_pair&) = delete;
  socket_pair& operator=(const socket_pair&) = delete;

  [[nodiscard]] int end(int index) const { return ends_[index]; }
  void close_end(int index) {
    if (ends_[index] >= 0) {
      ::close(ends_[index]);
      ends_[index] = -1;
    }
  }
  void send() const { REQUIRE(::write(ends_[0], "x", 1) == 1); }
  void drain() const {
    char byte = 0;
    while (::read(ends_[1], &byte, 1) == 1) {
    }
  }

 private:
  int ends_[2] = {-1, -1};
};

// Waits until something is reported: wait() may return for no reason.
os::poll_event wait_for_one(os::poller& poller) {
  std::array<os::poll_event, 4> out;
  int count = 0;
  while (count == 0) {
    count = poller.wait(no_limit, out);
  }
  CHECK(count == 1);
  return out[0];
}

int look(os::poller& poller) {
  std::array<os::poll_event, 8> out;
  return poller.wait(0, out);
}

void do_nothing(int) {}

}  // namespace

TEST_CASE("readable is reported with its token, as long as it lasts") {
  os::poller poller;
  const socket_pair pair;
  REQUIRE_FALSE(poller.add(pair.end(1), interest::readable, 77));
  CHECK(look(poller) == 0);
  pair.send();
  const os::poll_event event = wait_for_one(poller);
  CHECK(event.token == 77);
  CHECK(event.ready == readiness::readable);
  CHECK(look(poller) == 1);
  pair.drain();
  CHECK(look(poller) == 0);
}

TEST_CASE("edge: once per change") {
  os::poller poller;
  const socket_pair pair;
  REQUIRE_FALSE(poller.add(pair.end(1), interest::readable | interest::edge, 1));
  pair.send();
  CHECK(look(poller) == 1);
  CHECK(look(poller) == 0);
  pair.send();
  CHECK(look(poller) == 1);
}

TEST_CASE("one shot: silent after one event until modified, and then with the new token") {
  os::poller poller;
  const socket_pair pair;
  REQUIRE_FALSE(poller.add(pair.end(1), interest::readable | interest::one_shot, 1));
  pair.send();
  CHECK(wait_for_one(poller).token == 1);
  CHECK(look(poller) == 0);
  pair.send();
  CHECK(look(poller) == 0);
  REQUIRE_FALSE(poller.modify(pair.end(1), interest::readable | interest::writable | interest::one_shot, 2));
  const os::poll_event event = wait_for_one(poller);
  CHECK(event.token == 2);
  CHECK(any_of(event.ready, readiness::readable));
  CHECK(any_of(event.ready, readiness::writable));
}

TEST_CASE("the peer's end shows: half closed, closed") {
  os::poller poller;
  socket_pair pair;
  REQUIRE_FALSE(poller.add(pair.end(1), interest::readable, 1));
  REQUIRE(::shutdown(pair.end(0), SHUT_WR) == 0);
  const readiness half = wait_for_one(poller).ready;
  CHECK(any_of(half, readiness::peer_closed));
  CHECK(any_of(half, readiness::readable));
  CHECK_FALSE(any_of(half, readiness::hung_up));
  pair.close_end(0);
  CHECK(any_of(wait_for_one(poller).ready, readiness::hung_up));
}

TEST_CASE("errors are returned, errno is left alone") {
  os::poller poller;
  const socket_pair pair;
  errno = 4711;
  CHECK(poller.add(-1, interest::readable, 1) == std::errc::bad_file_descriptor);
  REQUIRE_FALSE(poller.add(pair.end(1), interest::readable, 1));
  CHECK(poller.add(pair.end(1), interest::readable, 1) == std::errc::file_exists);
  REQUIRE_FALSE(poller.remove(pair.end(1)));
  CHECK(poller.remove(pair.end(1)) == std::errc::no_such_file_or_directory);
  CHECK(poller.modify(pair.end(1), interest::readable, 1) == std::errc::no_such_file_or_directory);
  const int null_device = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  CHECK(poller.add(null_device, interest::readable, 1) == std::errc::operation_not_permitted);
  ::close(null_device);
  CHECK(look(poller) == 0);
  CHECK(errno == 4711);
  pair.send();
  CHECK(look(poller) == 0);
}

TEST_CASE("a descriptor that is closed is gone by itself") {
  os::poller poller;
  socket_pair pair;
  REQUIRE_FALSE(poller.add(pair.end(1), interest::readable, 1));
  pair.send();
  pair.close_end(1);
  CHECK(look(poller) == 0);
}

TEST_CASE("more events than room: the rest comes next time") {
  os::poller poller;
  const std::array<socket_pair, 3> pairs;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    REQUIRE_FALSE(poller.add(pairs[i].end(1), interest::readable | interest::edge, i));
    pairs[i].send();
  }
  poller.notify();
  unsigned seen = 0;
  std::array<os::poll_event, 1> out;
  for (int tries = 0; tries < 10; ++tries) {
    if (poller.wait(0, out) == 1) {
      seen |= 1U << out[0].token;
    }
  }
  CHECK(seen == 7);
}

TEST_CASE("more than one batch of events") {
  constexpr std::size_t count = 200;
  os::poller poller;
  const std::vector<socket_pair> pairs(count);
  for (std::size_t i = 0; i < count; ++i) {
    REQUIRE_FALSE(poller.add(pairs[i].end(1), interest::writable | interest::edge, i));
  }
  std::vector<os::poll_event> out(count);
  std::vector<int> seen(count, 0);
  for (int got = 0; (got = poller.wait(0, out)) > 0;) {
    for (int i = 0; i < got; ++i) {
      ++seen[out[static_cast<std::size_t>(i)].token];
    }
  }
  for (const int times : seen) {
    CHECK(times == 1);
  }
}

TEST_CASE("a timeout is never early, with nanoseconds and without") {
  os::poller poller;
  std::array<os::poll_event, 1> out;
  for (const bool milliseconds_only : {false, true}) {
    CAPTURE(milliseconds_only);
    os::poller::force_millisecond_wait(milliseconds_only);
    for (const std::int64_t timeout : {std::int64_t{1}, std::int64_t{300'000}, 2 * millisecond + 1}) {
      const std::int64_t start = os::monotonic_ns();
      CHECK(poller.wait(timeout, out) == 0);
      CHECK(os::monotonic_ns() - start >= timeout);
    }
    CHECK(poller.wait(0, out) == 0);
  }
  os::poller::force_millisecond_wait(false);
}

TEST_CASE("extreme timeouts wait, a notify ends them") {
  for (const bool milliseconds_only : {false, true}) {
    os::poller::force_millisecond_wait(milliseconds_only);
    for (const std::int64_t timeout : {os::never, os::never - 1, os::never / 2, no_limit}) {
      os::poller poller;
      std::array<os::poll_event, 1> out;
      poller.notify();
      CHECK(poller.wait(timeout, out) == 0);
    }
  }
  os::poller::force_millisecond_wait(false);
}

TEST_CASE("a notification before the wait counts, several count once") {
  os::poller poller;
  std::array<os::poll_event, 1> out;
  poller.notify();
  poller.notify();
  CHECK(poller.wait(no_limit, out) == 0);
  // Used up: this one lasts its whole time.
  const std::int64_t start = os::monotonic_ns();
  CHECK(poller.wait(2 * millisecond, out) == 0);
  CHECK(os::monotonic_ns() - start >= 2 * millisecond);
  poller.notify();
  CHECK(poller.wait(no_limit, out) == 0);
}

TEST_CASE("no notification is lost between two threads, and what was written before it is seen") {
  os::poller forth;
  os::poller back;
  constexpr int rounds = 2000;
  std::atomic<int> turn{0};
  int moves = 0;  // not atomic: TSan would complain if notify() and wait() ordered nothing
  const auto play = [&](os::poller& own, os::poller& other, int parity) {
    std::array<os::poll_event, 1> out;
    for (int at = parity; at < rounds; at += 2) {
      do {
        own.wait(no_limit, out);
      } while (turn.load(std::memory_order_relaxed) != at);
      ++moves;
      turn.store(at + 1, std::memory_order_relaxed);
      other.notify();
    }
  };
  std::thread second([&] { play(back, forth, 1); });
  forth.notify();
  play(forth, back, 0);
  second.join();
  CHECK(moves == rounds);
}

TEST_CASE("notify from a signal handler of the waiting thread") {
  static os::poller* target = nullptr;
  os::poller poller;
  target = &poller;
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { target->notify(); };
  ::sigaction(SIGUSR1, &action, &before);
  std::atomic<bool> done{false};
  std::atomic<bool> ready{false};
  std::thread waiter([&] {
    std::array<os::poll_event, 1> out;
    ready.store(true);
    // The signal itself (EINTR) or its notification, each ends a wait: two returns at most per signal, both 0.
    CHECK(poller.wait(no_limit, out) == 0);
    done.store(true);
  });
  while (!ready.load()) {
    os::thread_yield();
  }
  while (!done.load()) {
    ::pthread_kill(waiter.native_handle(), SIGUSR1);
    os::thread_sleep_until(os::monotonic_ns() + millisecond);
  }
  waiter.join();
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST_CASE("a signal ends a wait without an event and without touching errno") {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = &do_nothing;
  ::sigaction(SIGUSR2, &action, &before);
  os::poller poller;
  std::atomic<bool> done{false};
  std::thread waiter([&] {
    std::array<os::poll_event, 1> out;
    errno = 4711;
    CHECK(poller.wait(no_limit, out) == 0);
    CHECK(errno == 4711);
    done.store(true);
  });
  while (!done.load()) {
    ::pthread_kill(waiter.native_handle(), SIGUSR2);
    os::thread_sleep_until(os::monotonic_ns() + millisecond);
  }
  waiter.join();
  ::sigaction(SIGUSR2, &before, nullptr);
}

TEST_CASE("descriptors are closed on exec and when the poller ends") {
  const auto highest = [] {
    const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::close(next);
    return next;
  };
  const int before = highest();
  {
    os::poller poller;
    for (int fd = before; fd < highest(); ++fd) {
      CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    }
    CHECK(highest() == before + 2);
  }
  CHECK(highest() == before);
}

TEST_CASE("out of descriptors: an exception that names the limit, and nothing leaks") {
  const auto result = lagom::tests::run_in_child([] {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::close(next);
    limit.rlim_cur = static_cast<rlim_t>(next) + 1;  // room for one of the two
    ::setrlimit(RLIMIT_NOFILE, &limit);
    try {
      os::poller poller;
    } catch (const std::system_error& error) {
      const bool named = std::string(error.what()).find("RLIMIT_NOFILE") != std::string::npos;
      const int after = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
      ::_exit(named && error.code() == std::errc::too_many_files_open && after == next ? 0 : 1);
    }
    ::_exit(2);
  });
  INFO("status ", result.status, ": ", result.output);
  CHECK(result.exited_with(0));
}
