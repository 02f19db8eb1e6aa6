// SPDX-License-Identifier: BSL-1.0
// Connections that are read, written, timed out, stopped and closed from all sides at once. Each byte tells its connection
// and place, so one that goes astray is seen; a call that never returns is found by the joins.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <lagom/io.hpp>
#include <lagom/net.hpp>

#include "support/fixture.hpp"

using namespace lagom::tests;
using lagom::net::tcp_stream;

namespace {

constexpr auto forever = std::chrono::minutes(2);

std::byte byte_at(std::uint32_t connection, std::size_t place) {
  return static_cast<std::byte>(connection * 31 + place * 7 + place / 251);
}

bool is_expected(const std::error_code& ec) {
  return ec == lagom::errc::closed || ec == lagom::errc::stopped || ec == std::errc::timed_out ||
         ec == std::errc::broken_pipe || ec == std::errc::connection_reset || ec == std::errc::device_or_resource_busy;
}

struct direction_of_bytes {
  tcp_stream& from;
  tcp_stream& to;
  std::uint32_t id;
};

void write_bytes(direction_of_bytes d, verdict& all, std::uint32_t seed) {
  std::minstd_rand random(seed);
  std::vector<std::byte> block(30'000);
  std::error_code ec;
  for (std::size_t place = 0; place < 200'000 && !ec;) {
    const std::size_t size = 1 + random() % block.size();
    for (std::size_t i = 0; i < size; ++i) block[i] = byte_at(d.id, place + i);
    place += d.from.write_all(std::span(block).first(size), ec);
    if (ec == std::errc::timed_out) ec.clear();
  }
  all.expect(!ec || is_expected(ec), "write: " + ec.message());
}

void read_bytes(direction_of_bytes d, verdict& all, std::uint32_t seed) {
  std::minstd_rand random(seed);
  std::vector<std::byte> block(30'000);
  std::error_code ec;
  for (std::size_t place = 0; !ec;) {
    const std::size_t n = d.to.read_some(std::span(block).first(1 + random() % block.size()), ec);
    for (std::size_t i = 0; i < n; ++i) {
      if (!all.expect(block[i] == byte_at(d.id, place + i), "a wrong byte")) return;
    }
    place += n;
    if (ec == std::errc::timed_out) {
      ec.clear();
    } else if (n == 0) {
      break;
    }
  }
  all.expect(!ec || is_expected(ec), "read: " + ec.message());
}

// One connection's life.
void live(std::uint32_t seed, verdict& all) {
  std::minstd_rand random(seed);
  std::array<int, 2> fd{};
  if (!all.expect(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd.data()) == 0, "socketpair")) return;
  std::array<tcp_stream, 2> ends{tcp_stream::adopt(fd[0]), tcp_stream::adopt(fd[1])};
  const direction_of_bytes there{ends[0], ends[1], 2 * seed}, back{ends[1], ends[0], 2 * seed + 1};
  std::vector<lagom::fiber> fibers;
  for (const direction_of_bytes d : {there, back}) {
    fibers.push_back(lagom::spawn([d, &all, s = random()] { write_bytes(d, all, static_cast<std::uint32_t>(s)); }));
    fibers.push_back(lagom::spawn([d, &all, s = random()] { read_bytes(d, all, static_cast<std::uint32_t>(s)); }));
  }
  const unsigned pokes = static_cast<unsigned>(random() % 12);
  for (unsigned i = 0; i < pokes; ++i) {
    lagom::this_fiber::sleep_for(std::chrono::microseconds(random() % 300));
    tcp_stream& stream = ends[random() % 2];
    switch (random() % 6) {
      case 0: stream.set_read_deadline(clock::now() + std::chrono::microseconds(random() % 200)); break;
      case 1: stream.set_write_deadline(clock::now() + std::chrono::microseconds(random() % 200)); break;
      case 2: fibers[random() % fibers.size()].request_stop(); break;
      case 3: {
        std::error_code ec;
        std::array<std::byte, 1> none{};
        // Almost always refused; if not, these bytes are missing to the other reader, so nothing may be there to take.
        if (stream.read_some(std::span(none).first(0), ec) != 0) all.expect(false, "read nothing and got it");
        break;
      }
      default: lagom::this_fiber::yield();
    }
    // A deadline in the past would make the loops above spin.
    for (tcp_stream& end : ends) {
      end.set_read_deadline(clock::time_point::max());
      end.set_write_deadline(clock::time_point::max());
    }
  }
  ends[random() % 2].close();
  for (lagom::fiber& f : fibers) all.expect(f.join_for(forever), "a call does not return");
}

// As live(), for descriptors that nobody tells us about.
void live_bare(std::uint32_t seed, verdict& all) {
  std::minstd_rand random(seed);
  std::array<int, 2> fd{};
  if (!all.expect(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd.data()) == 0, "socketpair")) return;
  lagom::fiber reader = lagom::spawn([&] {
    std::array<std::byte, 300> block;
    std::error_code ec;
    for (std::size_t place = 0;;) {
      ec = lagom::io::wait_readable(fd[1], clock::now() + std::chrono::microseconds(seed % 400));
      if (ec && ec != std::errc::timed_out) break;
      const std::size_t n = ec ? 0 : lagom::io::read(fd[1], block, ec);
      if (ec == std::errc::timed_out) continue;
      if (n == 0) break;
      for (std::size_t i = 0; i < n; ++i) all.expect(block[i] == byte_at(seed, place + i), "a wrong byte");
      place += n;
    }
    all.expect(!ec || is_expected(ec), "bare read: " + ec.message());
  });
  std::array<std::byte, 1000> block;
  for (std::size_t place = 0; place < 20'000;) {
    const std::size_t size = 1 + random() % block.size();
    for (std::size_t i = 0; i < size; ++i) block[i] = byte_at(seed, place + i);
    place += lagom::io::write(fd[0], std::span(block).first(size));
    if (random() % 8 == 0) lagom::this_fiber::sleep_for(std::chrono::microseconds(random() % 300));
  }
  if (seed % 3 == 0) reader.request_stop();
  ::shutdown(fd[0], SHUT_WR);
  all.expect(reader.join_for(forever), "a wait does not return");
  ::close(fd[0]);
  ::close(fd[1]);
}

}  // namespace

TEST_CASE("streams and bare descriptors under random use") {
  for (const std::uint64_t chaos : {0u, 1u, 2u}) {
    verdict all;
    lagom::runtime_options options;
    options.chaos_seed = chaos;
    for_each_worker_count(
        [&](lagom::runtime& rt) {
          rt.run([&] {
            std::atomic<std::uint32_t> next{static_cast<std::uint32_t>(chaos * 1'000'000)};
            const std::uint32_t end = next + static_cast<std::uint32_t>(rounds(300));
            std::vector<lagom::fiber> crowd;
            for (int i = 0; i < 12; ++i) {
              crowd.push_back(lagom::spawn([&, i] {
                for (std::uint32_t seed = next++; seed < end; seed = next++) {
                  i % 3 == 0 ? live_bare(seed, all) : live(seed, all);
                }
              }));
            }
            for (lagom::fiber& f : crowd) f.join();
          });
        },
        options, {1, 2, 4});
  }
}
