// SPDX-License-Identifier: BSL-1.0
// The table alone: threads play the fibers, the test plays the workers, so that each step can be put in its place.
#include "io/descriptors.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "io_waist.hpp"
#include "os/clock.hpp"

namespace {

constexpr std::int64_t millisecond = 1'000'000;

// A thread that plays a fiber of one wait.
class waiting_thread {
 public:
  waiting_thread(ld::descriptor_table& table, os::poller& poller, int fd, ld::direction where,
                 std::int64_t expiry = ld::never)
      : thread_([&table, &poller, fd, where, expiry, this] {
          home = {&poller, &table};
          parker_ = &self();
          result_ = table.wait(fd, where, expiry);
          ended_ = true;
        }) {}
  ~waiting_thread() {
    if (thread_.joinable()) thread_.join();
  }
  std::error_code result() {
    thread_.join();
    return result_;
  }
  bool ended() const { return ended_; }
  void until_parked() const {
    while (!ended_ && !(parker_.load() && parker_.load()->is_parked)) std::this_thread::yield();
  }
  void stop() const { ld::unpark({parker_.load(), 1}, ld::wake::stopped); }

 private:
  std::atomic<test_parker*> parker_{nullptr};
  std::atomic<bool> ended_{false};
  std::error_code result_;
  std::thread thread_;  // last: it uses the others
};

struct ends {
  std::array<int, 2> fd{-1, -1};
  ends() { REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd.data()) == 0); }
  ~ends() {
    for (const int e : fd) {
      if (e >= 0) ::close(e);
    }
  }
  void say() const { REQUIRE(::write(fd[1], "x", 1) == 1); }
  void hear() const {
    char c;
    REQUIRE(::read(fd[0], &c, 1) == 1);
  }
  void fill() const {
    const std::array<char, 4096> block{};
    while (::write(fd[0], block.data(), block.size()) > 0) continue;
    REQUIRE(errno == EAGAIN);
  }
  void drain() const {
    std::array<char, 4096> block;
    while (::read(fd[1], block.data(), block.size()) > 0) continue;
  }
};

int serve(ld::descriptor_table& table, os::poller& poller, std::int64_t timeout = 0) {
  std::array<os::poll_event, 16> events;
  const int n = poller.wait(timeout, events);
  table.dispatch(std::span(events.data(), static_cast<std::size_t>(n)));
  return n;
}

constexpr std::int64_t long_enough = 5'000 * millisecond;

}  // namespace

TEST_CASE("what is ready before the wait fires at once") {
  ld::descriptor_table table;
  os::poller poller;
  ends pair;
  pair.say();
  waiting_thread reader(table, poller, pair.fd[0], ld::direction::read);
  reader.until_parked();
  CHECK(table.anybody_waits());
  CHECK(serve(table, poller, long_enough) == 1);
  CHECK(!reader.result());
  CHECK(!table.anybody_waits());
}

TEST_CASE("what becomes ready later wakes, and only the direction concerned") {
  ld::descriptor_table table;
  os::poller poller;
  ends pair;
  pair.fill();
  waiting_thread reader(table, poller, pair.fd[0], ld::direction::read);
  waiting_thread writer(table, poller, pair.fd[0], ld::direction::write);
  reader.until_parked();
  writer.until_parked();
  CHECK(serve(table, poller) == 0);
  pair.say();
  CHECK(serve(table, poller, long_enough) == 1);
  CHECK(!reader.result());
  CHECK(!writer.ended());
  pair.drain();
  CHECK(serve(table, poller, long_enough) == 1);
  CHECK(!writer.result());
}

TEST_CASE("a hang-up wakes both directions") {
  ld::descriptor_table table;
  os::poller poller;
  ends pair;
  pair.fill();
  waiting_thread reader(table, poller, pair.fd[0], ld::direction::read);
  waiting_thread writer(table, poller, pair.fd[0], ld::direction::write);
  reader.until_parked();
  writer.until_parked();
  ::close(std::exchange(pair.fd[1], -1));
  CHECK(serve(table, poller, long_enough) == 1);
  CHECK(!reader.result());
  CHECK(!writer.result());
}

TEST_CASE("a second reader is refused and the first is not disturbed") {
  ld::descriptor_table table;
  os::poller poller;
  ends pair;
  waiting_thread first(table, poller, pair.fd[0], ld::direction::read);
  first.until_parked();
  const int before = disarmed;
  waiting_thread second(table, poller, pair.fd[0], ld::direction::read);
  CHECK(second.result() == std::errc::device_or_resource_busy);
  CHECK(disarmed == before + 1);
  pair.say();
  serve(table, poller, long_enough);
  CHECK(!first.result());
}

TEST_CASE("deadline and stop end a wait, and what comes later is for nobody") {
  ld::descriptor_table table;
  os::poller poller;
  ends pair;
  waiting_thread late(table, poller, pair.fd[0], ld::direction::read, os::monotonic_ns() + millisecond);
  CHECK(late.result() == std::errc::timed_out);
  pair.say();
  CHECK(serve(table, poller) == 1);  // the registration was still armed
  CHECK(serve(table, poller) == 0);
  pair.hear();
  waiting_thread stopped(table, poller, pair.fd[0], ld::direction::read);
  stopped.until_parked();
  stopped.stop();
  CHECK(stopped.result() == lagom::errc::stopped);
  CHECK(!table.anybody_waits());
}

TEST_CASE("ready at the deadline counts although no worker has looked") {
  ld::descriptor_table table;
  os::poller poller;
  ends pair;
  pair.say();
  waiting_thread reader(table, poller, pair.fd[0], ld::direction::read, os::monotonic_ns() + millisecond);
  CHECK(!reader.result());
  waiting_thread past(table, poller, pair.fd[0], ld::direction::read, 0);
  CHECK(!past.result());
  pair.hear();
  waiting_thread past_again(table, poller, pair.fd[0], ld::direction::read, -5);
  CHECK(past_again.result() == std::errc::timed_out);
}

TEST_CASE("an event that was fetched before the next wait is not taken for it") {
  ld::descriptor_table table;
  os::poller poller;
  ends pair;
  waiting_thread first(table, poller, pair.fd[0], ld::direction::read, os::monotonic_ns() + 20 * millisecond);
  first.until_parked();
  pair.say();
  std::array<os::poll_event, 4> events;
  REQUIRE(poller.wait(long_enough, events) == 1);  // fetched, not yet dispatched
  first.stop();
  static_cast<void>(first.result());
  pair.hear();
  waiting_thread second(table, poller, pair.fd[0], ld::direction::read);
  second.until_parked();
  table.dispatch(std::span(events.data(), 1));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(!second.ended());
  pair.say();
  CHECK(serve(table, poller, long_enough) == 1);
  CHECK(!second.result());
}

TEST_CASE("a wait goes to the caller's poller, or to the one where the other direction waits") {
  ld::descriptor_table table;
  os::poller first, second;
  ends pair;
  pair.fill();
  for (int round = 0; round < 3; ++round) {
    os::poller& mine = round % 2 == 0 ? first : second;
    os::poller& other = round % 2 == 0 ? second : first;
    waiting_thread reader(table, mine, pair.fd[0], ld::direction::read);
    reader.until_parked();
    waiting_thread writer(table, other, pair.fd[0], ld::direction::write);
    writer.until_parked();
    pair.say();
    CHECK(serve(table, other) == 0);
    CHECK(serve(table, mine, long_enough) == 1);
    CHECK(!reader.result());
    pair.hear();
    pair.drain();
    CHECK(serve(table, other) == 0);
    CHECK(serve(table, mine, long_enough) == 1);
    CHECK(!writer.result());
    pair.fill();
  }
}

TEST_CASE("a wait that moves takes its registration along") {
  ld::descriptor_table table;
  os::poller first, second;
  ends pair;
  waiting_thread late(table, first, pair.fd[0], ld::direction::read, os::monotonic_ns() + millisecond);
  CHECK(late.result() == std::errc::timed_out);  // and is still armed there
  waiting_thread reader(table, second, pair.fd[0], ld::direction::read);
  reader.until_parked();
  pair.say();
  CHECK(serve(table, first) == 0);
  CHECK(serve(table, second, long_enough) == 1);
  CHECK(!reader.result());
}

TEST_CASE("a number that is closed and opened again between waits is registered anew") {
  ld::descriptor_table table;
  os::poller poller;
  for (int round = 0; round < 3; ++round) {
    ends pair;
    waiting_thread reader(table, poller, pair.fd[0], ld::direction::read);
    reader.until_parked();
    pair.say();
    CHECK(serve(table, poller, long_enough) == 1);
    CHECK(!reader.result());
  }
}

TEST_CASE("descriptors that cannot be waited for") {
  ld::descriptor_table table;
  os::poller poller;
  CHECK(waiting_thread(table, poller, -1, ld::direction::read).result() == std::errc::bad_file_descriptor);
  CHECK(waiting_thread(table, poller, 987'654, ld::direction::read).result() == std::errc::bad_file_descriptor);
  std::string name = "/tmp/lagom-io-XXXXXX";
  const int file = ::mkstemp(name.data());
  REQUIRE(file >= 0);
  ::unlink(name.c_str());
  CHECK(!waiting_thread(table, poller, file, ld::direction::read).result());
  CHECK(!waiting_thread(table, poller, file, ld::direction::write).result());
  ::close(file);
  CHECK(!table.anybody_waits());
}

TEST_CASE("an unexpected token does no harm") {
  ld::descriptor_table table;
  os::poller poller;
  ends pair;
  waiting_thread reader(table, poller, pair.fd[0], ld::direction::read);
  reader.until_parked();
  pair.say();
  std::array<os::poll_event, 4> events;
  REQUIRE(poller.wait(long_enough, events) == 1);
  events[1] = {events[0].token + (std::uint64_t{1} << 32), os::readiness::readable};
  table.dispatch(std::span(events.data() + 1, 1));
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  CHECK(!reader.ended());
  table.dispatch(std::span(events.data(), 1));
  CHECK(!reader.result());
}
