// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <lagom/lagom.hpp>
#include <lagom/net.hpp>

using namespace std::chrono_literals;
using lagom::net::endpoint;
using lagom::net::tcp_listener;
using lagom::net::tcp_stream;
using std::chrono::steady_clock;

namespace {

lagom::runtime_options with_workers(unsigned n) {
  lagom::runtime_options options;
  options.workers = n;
  return options;
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string read_exactly(tcp_stream& stream, std::size_t size) {
  std::string text(size, '\0');
  const std::span<std::byte> room = std::as_writable_bytes(std::span(text));
  std::size_t got = 0;
  while (got < size) {
    const std::size_t n = stream.read_some(room.subspan(got));
    if (n == 0) break;
    got += n;
  }
  text.resize(got);
  return text;
}

struct connection {
  tcp_stream client, server;
  connection() {
    tcp_listener listener(endpoint::loopback(0));
    client = tcp_stream::connect(listener.local_endpoint());
    server = listener.accept();
  }
};

// Until nothing goes in any more: the system takes its time to move bytes to the peer and to enlarge buffers.
void fill(tcp_stream& stream) {
  const int small = 64 << 10;  // also ends the enlarging
  ::setsockopt(stream.native_handle(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  const std::vector<std::byte> block(1 << 20);
  for (int quiet = 0; quiet < 5;) {
    std::error_code ec;
    stream.set_write_deadline(steady_clock::now() + 10ms);
    quiet = stream.write_all(block, ec) == 0 ? quiet + 1 : 0;
  }
  stream.set_write_deadline(steady_clock::time_point::max());
}

// Everything here holds for fibers and for plain threads.
template <class F>
void on_fibers_and_threads(F&& body) {
  for (const unsigned workers : {1u, 2u}) {
    lagom::runtime rt(with_workers(workers));
    rt.run([&] { body([](auto f) { return lagom::spawn(std::move(f)); }); });
  }
  struct joined_thread : std::thread {
    using std::thread::thread;
  };
  body([](auto f) { return joined_thread(std::move(f)); });
}

}  // namespace

TEST_CASE("endpoints are read and written") {
  for (const char* text : {"127.0.0.1:80", "0.0.0.0:0", "255.255.255.255:65535", "[::1]:8080", "[2001:db8::7]:1", "[::]:443"}) {
    CHECK(endpoint::parse(text).to_string() == text);
  }
  CHECK(endpoint::parse("10.1.2.3:99").address() == "10.1.2.3");
  CHECK(endpoint::parse(":99") == endpoint::any_v6(99));
  CHECK(endpoint::parse("127.0.0.1:5") == endpoint::loopback(5));
  CHECK(endpoint::parse("[::1]:5") == endpoint::loopback_v6(5));
  CHECK(endpoint::parse("[fe80::1%7]:5").to_string() == "[fe80::1%7]:5");
  CHECK(endpoint() == endpoint::any(0));
  CHECK(endpoint::loopback(1) != endpoint::loopback(2));
}

TEST_CASE("what is not an endpoint is refused") {
  for (const std::string text : {"", ":", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1: 1",
                                 "1.2.3:4", "localhost:80", "::1:80", "[::1]", "[::1:80", "[]:80", "[127.0.0.1]:80", "[:80",
                                 "1.2.3.4:80x", "[fe80::1%]:5"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(endpoint::parse(text), std::invalid_argument);
  }
  CHECK_THROWS_AS(endpoint::parse(std::string("127.0.0.1\0:80", 13)), std::invalid_argument);
}

TEST_CASE("a conversation") {
  on_fibers_and_threads([](auto spawn) {
    tcp_listener listener(endpoint::loopback(0));
    const endpoint where = listener.local_endpoint();
    CHECK(where.port() != 0);
    auto server = spawn([&] {
      tcp_stream stream = listener.accept();
      CHECK(stream.local_endpoint() == where);
      std::array<std::byte, 100> block;
      while (const std::size_t n = stream.read_some(block)) stream.write_all(std::span(block).first(n));
    });
    tcp_stream client = tcp_stream::connect(where);
    CHECK(client.is_open());
    CHECK(client.remote_endpoint() == where);
    for (int i = 0; i < 200; ++i) {
      const std::string said = "line " + std::to_string(i);
      client.write_all(bytes_of(said));
      CHECK(read_exactly(client, said.size()) == said);
    }
    client.shutdown_write();
    CHECK(read_exactly(client, 1).empty());
    server.join();
  });
}

TEST_CASE("many connections at once, over IPv6 too") {
  lagom::runtime rt(with_workers(2));
  rt.run([] {
    tcp_listener listener(endpoint::parse(":0"));
    const std::uint16_t port = listener.local_endpoint().port();
    lagom::fiber acceptor = lagom::spawn([&] {
      std::error_code ec;
      while (true) {
        tcp_stream stream = listener.accept(ec);
        if (ec) break;
        lagom::spawn_detached([stream = std::move(stream)]() mutable {
          // The end of the runtime stops those that have not seen the end of their stream yet.
          std::error_code own;
          std::array<std::byte, 64> block;
          while (const std::size_t n = stream.read_some(block, own)) stream.write_all(std::span(block).first(n), own);
        });
      }
      CHECK(ec == lagom::errc::closed);
    });
    std::vector<lagom::fiber> clients;
    std::atomic<int> right{0};
    for (int i = 0; i < 100; ++i) {
      clients.push_back(lagom::spawn([&right, port, i] {
        tcp_stream stream = tcp_stream::connect(endpoint::loopback(port));
        for (int round = 0; round < 20; ++round) {
          const std::string said = std::to_string(i) + '/' + std::to_string(round);
          stream.write_all(bytes_of(said));
          right += read_exactly(stream, said.size()) == said;
        }
      }));
    }
    for (lagom::fiber& f : clients) f.join();
    CHECK(right == 2000);
    listener.close();
    acceptor.join();
  });
}

TEST_CASE("both directions move at once and arrive whole") {
  on_fibers_and_threads([](auto spawn) {
    connection c;
    static constexpr std::size_t total = 3u << 20;
    auto send = [](tcp_stream& stream) {
      std::vector<std::byte> data(total);
      for (std::size_t i = 0; i < total; ++i) data[i] = static_cast<std::byte>(i % 253);
      CHECK(stream.write_all(data) == total);
    };
    auto receive = [](tcp_stream& stream) {
      const std::string all = read_exactly(stream, total);
      CHECK(all.size() == total);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < total; ++i) wrong += static_cast<unsigned char>(all[i]) != i % 253;
      CHECK(wrong == 0);
    };
    auto a = spawn([&] { send(c.client); });
    auto b = spawn([&] { receive(c.client); });
    auto d = spawn([&] { send(c.server); });
    receive(c.server);
    a.join();
    b.join();
    d.join();
  });
}

TEST_CASE("close wakes the reader and the writer, and ends later calls") {
  on_fibers_and_threads([](auto spawn) {
    connection c;
    fill(c.client);
    std::atomic<int> closed{0};
    auto reader = spawn([&] {
      std::error_code ec;
      std::array<std::byte, 4> block;
      CHECK(c.client.read_some(block, ec) == 0);
      closed += ec == lagom::errc::closed;
    });
    auto writer = spawn([&] {
      std::error_code ec;
      const std::array<std::byte, 4> block{};
      CHECK(c.client.write_some(block, ec) == 0);
      closed += ec == lagom::errc::closed;
    });
    lagom::this_fiber::sleep_for(3ms);
    CHECK(closed == 0);
    c.client.close();
    reader.join();
    writer.join();
    CHECK(closed == 2);
    CHECK(!c.client.is_open());
    CHECK(c.client.native_handle() == -1);
    std::error_code ec;
    std::array<std::byte, 4> block{};
    CHECK(c.client.read_some(block, ec) == 0);
    CHECK(ec == lagom::errc::closed);
    CHECK(c.client.write_all(block, ec) == 0);
    CHECK(ec == lagom::errc::closed);
    CHECK_THROWS_AS(c.client.shutdown_write(), std::system_error);
    CHECK_THROWS_AS(c.client.local_endpoint(), std::system_error);
    CHECK_THROWS_AS(c.client.release(), std::system_error);
    c.client.set_read_deadline(steady_clock::now());
    c.client.close();
  });
}

TEST_CASE("closing a listener wakes who accepts, and the port is free") {
  on_fibers_and_threads([](auto spawn) {
    tcp_listener listener(endpoint::loopback(0));
    const endpoint where = listener.local_endpoint();
    std::error_code result;
    auto acceptor = spawn([&] { static_cast<void>(listener.accept(result)); });
    lagom::this_fiber::sleep_for(3ms);
    listener.close();
    acceptor.join();
    CHECK(result == lagom::errc::closed);
    std::error_code ec;
    static_cast<void>(tcp_stream::connect(where, ec));
    CHECK(ec == std::errc::connection_refused);
    const tcp_listener again(where);
    CHECK(again.is_open());
  });
}

TEST_CASE("deadlines end calls of their direction, whenever they are set") {
  on_fibers_and_threads([](auto spawn) {
    connection c;
    std::array<std::byte, 8> block{};
    std::error_code ec;
    const auto deadline = steady_clock::now() + 5ms;
    c.client.set_read_deadline(deadline);
    CHECK(c.client.read_some(block, ec) == 0);
    CHECK(ec == std::errc::timed_out);
    CHECK(steady_clock::now() >= deadline);
    c.server.write_all(bytes_of("late"));
    CHECK(c.client.read_some(block, ec) == 0);  // also with something there
    CHECK(ec == std::errc::timed_out);
    CHECK(c.client.write_all(bytes_of("other direction"), ec) == 15);
    CHECK(!ec);
    c.client.set_read_deadline(steady_clock::time_point::max());
    CHECK(read_exactly(c.client, 4) == "late");
    auto reader = spawn([&] {
      std::error_code own;
      std::array<std::byte, 8> room;
      CHECK(c.client.read_some(room, own) == 0);
      CHECK(own == std::errc::timed_out);
    });
    lagom::this_fiber::sleep_for(2ms);
    c.client.set_read_deadline(steady_clock::now() + 1h);
    lagom::this_fiber::sleep_for(1ms);
    c.client.set_read_deadline(steady_clock::now() + 1ms);
    reader.join();
    c.client.set_read_deadline(steady_clock::time_point::min());
    CHECK(c.client.read_some(block, ec) == 0);
    CHECK(ec == std::errc::timed_out);
  });
}

TEST_CASE("an accept deadline") {
  on_fibers_and_threads([](auto) {
    tcp_listener listener(endpoint::loopback(0));
    listener.set_accept_deadline(steady_clock::now() + 3ms);
    std::error_code ec;
    CHECK(!listener.accept(ec).is_open());
    CHECK(ec == std::errc::timed_out);
  });
}

TEST_CASE("a second reader is refused, a writer beside it is not") {
  on_fibers_and_threads([](auto spawn) {
    connection c;
    auto reader = spawn([&] {
      std::error_code own;
      std::array<std::byte, 1> room{};
      do {
        c.client.read_some(room, own);
      } while (own == std::errc::device_or_resource_busy);  // the question below may be in the way
      CHECK(room[0] == std::byte{'x'});
    });
    std::error_code ec;
    std::array<std::byte, 1> block{};
    while (ec != std::errc::device_or_resource_busy) {
      CHECK(c.client.read_some({}, ec) == 0);
      lagom::this_fiber::sleep_for(100us);
    }
    CHECK_THROWS_AS(c.client.release(), std::system_error);
    CHECK(c.client.write_all(block) == 1);
    c.server.write_all(bytes_of("x"));
    reader.join();
  });
}

TEST_CASE("a stop ends waiting calls but not those that need not wait") {
  lagom::runtime rt(with_workers(2));
  rt.run([] {
    connection c;
    c.server.write_all(bytes_of("first"));
    lagom::fiber reader = lagom::spawn([&] {
      CHECK(read_exactly(c.client, 5) == "first");
      std::error_code ec;
      std::array<std::byte, 16> block;
      CHECK(c.client.read_some(block, ec) == 0);
      CHECK(ec == lagom::errc::stopped);
      CHECK(c.client.write_all(bytes_of("still possible"), ec) == 14);
      CHECK(!ec);
    });
    lagom::this_fiber::sleep_for(3ms);
    reader.request_stop();
    reader.join();
    CHECK(read_exactly(c.server, 14) == "still possible");
  });
}

TEST_CASE("a broken connection is an error, not a signal") {
  on_fibers_and_threads([](auto) {
    connection c;
    c.server.close();
    const std::vector<std::byte> block(1 << 16);
    std::error_code ec;
    while (!ec) c.client.write_all(block, ec);
    CHECK((ec == std::errc::broken_pipe || ec == std::errc::connection_reset));
  });
}

TEST_CASE("connecting: refused, too late") {
  on_fibers_and_threads([](auto) {
    // Bound, so that nobody else gets the port, but not listening.
    const int bound = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    CHECK(::bind(bound, reinterpret_cast<sockaddr*>(&address), size) == 0);
    CHECK(::getsockname(bound, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    const endpoint nobody = endpoint::loopback(ntohs(address.sin_port));
    std::error_code ec;
    CHECK(!tcp_stream::connect(nobody, ec).is_open());
    CHECK(ec == std::errc::connection_refused);
    CHECK_THROWS_AS(static_cast<void>(tcp_stream::connect(nobody)), std::system_error);
    CHECK(!tcp_stream::connect(nobody, steady_clock::now() - 1s, ec).is_open());
    CHECK(ec == std::errc::timed_out);
    ::close(bound);
  });
}

TEST_CASE("a full backlog makes connect wait until its deadline") {
  lagom::runtime rt(with_workers(1));
  rt.run([] {
    lagom::net::listen_options options;
    options.backlog = 1;
    const tcp_listener listener(endpoint::loopback(0), options);
    std::vector<tcp_stream> held;
    std::error_code ec;
    for (int i = 0; i < 8 && !ec; ++i) {
      held.push_back(tcp_stream::connect(listener.local_endpoint(), steady_clock::now() + 50ms, ec));
    }
    CHECK(ec == std::errc::timed_out);
  });
}

TEST_CASE("adopt and release pass a descriptor in and out") {
  on_fibers_and_threads([](auto) {
    std::array<int, 2> fd{};
    CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd.data()) == 0);
    tcp_stream a = tcp_stream::adopt(fd[0]);
    CHECK(a.native_handle() == fd[0]);
    CHECK((::fcntl(fd[0], F_GETFL) & O_NONBLOCK) != 0);
    a.set_read_deadline(steady_clock::now() + 1ms);  // so that it gets registered
    std::array<std::byte, 1> block{};
    std::error_code ec;
    CHECK(a.read_some(block, ec) == 0);
    CHECK(ec == std::errc::timed_out);
    CHECK(a.release() == fd[0]);
    CHECK(!a.is_open());
    CHECK(::write(fd[0], "z", 1) == 1);
    tcp_stream b = tcp_stream::adopt(fd[1]);
    CHECK(read_exactly(b, 1) == "z");
    tcp_stream a_again = tcp_stream::adopt(fd[0]);
    a_again.set_read_deadline(steady_clock::now() + 1ms);
    CHECK(a_again.read_some(block, ec) == 0);
    CHECK(ec == std::errc::timed_out);
    CHECK_THROWS_AS(static_cast<void>(tcp_stream::adopt(-1)), std::system_error);
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK_THROWS_AS(static_cast<void>(tcp_stream::adopt(null)), std::system_error);
    ::close(null);
  });
}

TEST_CASE("a stream passes from one runtime to another and to a thread") {
  connection c;
  std::string heard;
  auto answer = [&] {
    c.client.write_all(bytes_of("?"));
    heard += read_exactly(c.client, 1);
  };
  std::thread server([&] {
    while (read_exactly(c.server, 1) == "?") {
      std::this_thread::sleep_for(1ms);  // so that the other side has to wait
      c.server.write_all(bytes_of("!"));
    }
  });
  for (int i = 0; i < 3; ++i) {
    lagom::runtime first(with_workers(1));
    first.run(answer);
    {
      lagom::runtime second(with_workers(2));
      second.run(answer);
    }
    first.run(answer);
    answer();
  }
  c.client.close();
  server.join();
  CHECK(heard == std::string(12, '!'));
}

TEST_CASE("descriptors are close-on-exec and non-blocking, and small writes are sent at once") {
  connection c;
  tcp_listener listener(endpoint::loopback(0));
  for (const int fd : {c.client.native_handle(), c.server.native_handle(), listener.native_handle()}) {
    CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    CHECK((::fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
  }
  c.client.set_no_delay(false);
  c.client.set_no_delay(true);
}

TEST_CASE("moved and empty streams") {
  connection c;
  tcp_stream moved = std::move(c.client);
  CHECK(!c.client.is_open());
  CHECK(moved.is_open());
  moved = tcp_stream();
  CHECK(read_exactly(c.server, 1).empty());
  tcp_listener none;
  std::error_code ec;
  static_cast<void>(none.accept(ec));
  CHECK(ec == lagom::errc::closed);
}
