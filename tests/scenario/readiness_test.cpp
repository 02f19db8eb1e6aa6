// SPDX-License-Identifier: BSL-1.0
// Readiness that comes between "would block" and the wait, and events for a number that has a new owner: event loops have
// lost the first and delivered the second to the wrong one.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <doctest/doctest.h>
#include <lagom/io.hpp>
#include <lagom/net.hpp>

#include "support/fixture.hpp"

using namespace lagom::tests;
using lagom::net::tcp_stream;

namespace {

// A lost wake-up would last for ever: this only turns it into a message.
constexpr auto stall = 60s;

std::array<int, 2> socket_pair() {
  std::array<int, 2> fd{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd.data()) == 0);
  return fd;
}

long echo_rounds() { return is_long() ? 500'000 : rounds(50'000); }

// The foreign thread: writes a byte 0–3 us after the last echo, waits for it.
bool exchange_bytes(int fd, long count) {
  std::minstd_rand random(28);
  for (long i = 0; i < count; ++i) {
    const auto until = clock::now() + std::chrono::nanoseconds(random() % 3000);
    while (clock::now() < until) continue;
    const std::array<std::byte, 1> said{static_cast<std::byte>(i)};
    std::array<std::byte, 1> heard{};
    if (::write(fd, said.data(), 1) != 1) return false;
    if (lagom::io::wait_readable(fd, clock::now() + stall)) return false;
    if (::read(fd, heard.data(), 1) != 1 || heard != said) return false;
  }
  return true;
}

lagom::runtime_options two_workers() {
  lagom::runtime_options options;
  options.workers = 2;
  return options;
}

}  // namespace

TEST_CASE("no byte is lost between EAGAIN and the wait: descriptors of the user") {
  lagom::runtime rt(two_workers());
  const std::array<int, 2> fd = socket_pair();
  lagom::fiber echo = rt.spawn([fd = fd[0]] {
    std::array<std::byte, 1> block;
    while (lagom::io::read(fd, block) == 1) lagom::io::write(fd, block);
  });
  CHECK(exchange_bytes(fd[1], echo_rounds()));
  ::shutdown(fd[1], SHUT_WR);
  echo.join();
  ::close(fd[0]);
  ::close(fd[1]);
}

TEST_CASE("no byte is lost between EAGAIN and the wait: streams") {
  lagom::runtime rt(two_workers());
  const std::array<int, 2> fd = socket_pair();
  tcp_stream stream = tcp_stream::adopt(fd[0]);
  lagom::fiber echo = rt.spawn([&] {
    std::array<std::byte, 1> block;
    while (stream.read_some(block) == 1) stream.write_all(block);
  });
  CHECK(exchange_bytes(fd[1], echo_rounds()));
  ::shutdown(fd[1], SHUT_WR);
  echo.join();
  ::close(fd[1]);
}

// F1 waits; its stream is closed by another; the number goes to a new stream, on which F3 waits; the old peer writes. In
// every second round a duplicate keeps the old file alive, so that the kernel really does report the old event.
TEST_CASE("a closed stream's events do not reach the next owner of its number") {
  lagom::runtime rt(two_workers());
  const long count = is_long() ? 100'000 : rounds(10'000);
  verdict all;
  long same_number = 0;
  rt.run([&] {
    for (long i = 0; i < count; ++i) {
      const std::array<int, 2> first = socket_pair();
      tcp_stream old = tcp_stream::adopt(first[0]);
      const int duplicate = i % 2 == 0 ? ::fcntl(first[0], F_DUPFD_CLOEXEC, 0) : -1;
      lagom::fiber f1 = lagom::spawn([&] {
        std::error_code ec;
        std::array<std::byte, 1> block;
        old.read_some(block, ec);
        all.expect(ec == lagom::errc::closed, "F1: " + ec.message());
      });
      for (long turn = 0; turn < i % 4; ++turn) lagom::this_fiber::yield();
      old.close();
      const std::array<int, 2> second = socket_pair();
      same_number += second[0] == first[0];
      tcp_stream next = tcp_stream::adopt(second[0]);
      lagom::fiber f3 = lagom::spawn([&] {
        std::error_code ec;
        std::array<std::byte, 2> block{};
        const std::size_t n = next.read_some(block, ec);
        all.expect(n == 1 && block[0] == std::byte{'n'}, "F3 got " + std::to_string(n) + ' ' + ec.message());
      });
      lagom::this_fiber::yield();
      ::send(first[1], "o", 1, MSG_NOSIGNAL);
      lagom::this_fiber::yield();
      all.expect(::send(second[1], "n", 1, MSG_NOSIGNAL) == 1, "send");
      f1.join();
      f3.join();
      if (duplicate >= 0) ::close(duplicate);
      ::close(first[1]);
      ::close(second[1]);
    }
  });
  // Otherwise this test has not tested what it says.
  CHECK(same_number > count / 4);
}
