// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <lagom/io.hpp>
#include <lagom/lagom.hpp>

using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

class descriptor_pair {
 public:
  descriptor_pair() { CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd_.data()) == 0); }
  ~descriptor_pair() {
    close(0);
    close(1);
  }
  int operator[](std::size_t end) const { return fd_[end]; }
  void close(std::size_t end) {
    if (fd_[end] >= 0) ::close(std::exchange(fd_[end], -1));
  }

 private:
  std::array<int, 2> fd_{-1, -1};
};

lagom::runtime_options with_workers(unsigned n) {
  lagom::runtime_options options;
  options.workers = n;
  return options;
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// The descriptor's owner decides about SIGPIPE; here it is ignored, as in most servers.
const auto no_sigpipe = ::signal(SIGPIPE, SIG_IGN);

}  // namespace

TEST_CASE("fibers talk through a descriptor; neither sees EAGAIN") {
  for (const unsigned workers : {1u, 2u, 4u}) {
    lagom::runtime rt(with_workers(workers));
    descriptor_pair pair;
    rt.run([&] {
      lagom::fiber echo = lagom::spawn([fd = pair[1]] {
        std::array<std::byte, 64> block;
        while (const std::size_t n = lagom::io::read(fd, block)) lagom::io::write(fd, std::span(block).first(n));
      });
      for (int i = 0; i < 500; ++i) {
        const std::string said = "message " + std::to_string(i);
        CHECK(lagom::io::write(pair[0], bytes_of(said)) == said.size());
        std::string heard(said.size(), '\0');
        std::size_t got = 0;
        while (got < heard.size()) {
          got += lagom::io::read(pair[0], std::as_writable_bytes(std::span(heard)).subspan(got));
        }
        CHECK(heard == said);
      }
      ::shutdown(pair[0], SHUT_WR);
      echo.join();
    });
  }
}

TEST_CASE("a large write waits for the reader and arrives whole and in order") {
  lagom::runtime rt(with_workers(2));
  descriptor_pair pair;
  constexpr std::size_t total = 8u << 20;
  rt.run([&] {
    lagom::fiber writer = lagom::spawn([&] {
      std::vector<std::byte> data(total);
      for (std::size_t i = 0; i < total; ++i) data[i] = static_cast<std::byte>(i * 7 % 251);
      CHECK(lagom::io::write(pair[0], data) == total);
      pair.close(0);
    });
    std::vector<std::byte> block(65536);
    std::size_t seen = 0, wrong = 0;
    while (const std::size_t n = lagom::io::read(pair[1], block)) {
      for (std::size_t i = 0; i < n; ++i) wrong += block[i] != static_cast<std::byte>((seen + i) * 7 % 251);
      seen += n;
    }
    CHECK(seen == total);
    CHECK(wrong == 0);
    writer.join();
  });
}

TEST_CASE("both directions of one descriptor at once") {
  lagom::runtime rt(with_workers(2));
  descriptor_pair pair;
  static constexpr std::size_t total = 2u << 20;
  rt.run([&] {
    auto send = [](int fd) {
      const std::vector<std::byte> data(total, std::byte{42});
      CHECK(lagom::io::write(fd, data) == total);
    };
    auto receive = [](int fd) {
      std::vector<std::byte> block(10'000);
      std::size_t seen = 0;
      while (seen < total) seen += lagom::io::read(fd, block);
      CHECK(seen == total);
    };
    std::vector<lagom::fiber> all;
    for (std::size_t end : {0u, 1u}) {
      all.push_back(lagom::spawn(send, pair[end]));
      all.push_back(lagom::spawn(receive, pair[end]));
    }
    for (lagom::fiber& f : all) f.join();
  });
}

TEST_CASE("a deadline ends the wait and not before its time") {
  lagom::runtime rt(with_workers(2));
  descriptor_pair pair;
  auto check = [&] {
    const auto deadline = steady_clock::now() + 5ms;
    CHECK(lagom::io::wait_readable(pair[0], deadline) == std::errc::timed_out);
    CHECK(steady_clock::now() >= deadline);
    CHECK(lagom::io::wait_readable(pair[0], steady_clock::now() - 1h) == std::errc::timed_out);
    CHECK(lagom::io::wait_readable(pair[0], steady_clock::time_point::min()) == std::errc::timed_out);
    CHECK(!lagom::io::wait_writable(pair[0], steady_clock::time_point::max()));
    CHECK(!lagom::io::wait_writable(pair[0], steady_clock::now() - 1h));
  };
  rt.run(check);
  check();
}

TEST_CASE("a stop ends the wait") {
  lagom::runtime rt(with_workers(2));
  descriptor_pair pair;
  rt.run([&] {
    lagom::fiber reader = lagom::spawn([&] {
      std::error_code ec;
      std::array<std::byte, 1> block;
      CHECK(lagom::io::read(pair[0], block, ec) == 0);
      CHECK(ec == lagom::errc::stopped);
      CHECK(lagom::io::wait_readable(pair[0]) == lagom::errc::stopped);
    });
    lagom::this_fiber::sleep_for(2ms);
    reader.request_stop();
    reader.join();
  });
}

TEST_CASE("a second reader is refused while the first goes on") {
  lagom::runtime rt(with_workers(2));
  descriptor_pair pair;
  rt.run([&] {
    lagom::fiber first = lagom::spawn([&] {
      std::error_code ec;
      do {
        ec = lagom::io::wait_readable(pair[0]);
      } while (ec == std::errc::device_or_resource_busy);  // the question below may be in the way
      CHECK(!ec);
    });
    while (lagom::io::wait_readable(pair[0], steady_clock::now()) != std::errc::device_or_resource_busy) {
      lagom::this_fiber::sleep_for(100us);
    }
    CHECK(!lagom::io::wait_writable(pair[0]));
    CHECK(lagom::io::write(pair[1], bytes_of("x")) == 1);
    first.join();
  });
}

TEST_CASE("errors are the system's, from fibers and from threads") {
  lagom::runtime rt(with_workers(1));
  auto check = [] {
    std::error_code ec;
    std::array<std::byte, 8> block{};
    CHECK(lagom::io::wait_readable(-1) == std::errc::bad_file_descriptor);
    CHECK(lagom::io::wait_writable(99'999) == std::errc::bad_file_descriptor);
    CHECK(lagom::io::read(99'999, block, ec) == 0);
    CHECK(ec == std::errc::bad_file_descriptor);
    CHECK_THROWS_AS(lagom::io::read(-1, block), std::system_error);
    CHECK_THROWS_AS(lagom::io::write(-1, block), std::system_error);
    descriptor_pair pair;
    pair.close(1);
    CHECK(lagom::io::read(pair[0], block, ec) == 0);
    CHECK(!ec);
    CHECK(lagom::io::write(pair[0], block, ec) == 0);
    CHECK(ec == std::errc::broken_pipe);
    CHECK(lagom::io::write(pair[0], {}, ec) == 0);
    CHECK(!ec);
  };
  rt.run(check);
  check();
}

TEST_CASE("a regular file and /dev/null never wait") {
  lagom::runtime rt(with_workers(1));
  auto check = [] {
    std::string name = "/tmp/lagom-io-XXXXXX";
    const int file = ::mkstemp(name.data());
    CHECK(file >= 0);
    ::unlink(name.c_str());
    const std::string text = "in a file";
    CHECK(!lagom::io::wait_readable(file));
    CHECK(lagom::io::write(file, bytes_of(text)) == text.size());
    ::lseek(file, 0, SEEK_SET);
    std::string back(32, '\0');
    CHECK(lagom::io::read(file, std::as_writable_bytes(std::span(back))) == text.size());
    CHECK(back.substr(0, text.size()) == text);
    ::close(file);
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK(!lagom::io::wait_readable(null));
    CHECK(lagom::io::read(null, std::as_writable_bytes(std::span(back))) == 0);
    CHECK(lagom::io::write(null, bytes_of(text)) == text.size());
    ::close(null);
  };
  rt.run(check);
  check();
}

TEST_CASE("a plain thread and a fiber talk") {
  lagom::runtime rt(with_workers(1));
  descriptor_pair pair;
  std::thread other([&] {
    std::array<std::byte, 16> block;
    while (const std::size_t n = lagom::io::read(pair[1], block)) lagom::io::write(pair[1], std::span(block).first(n));
  });
  rt.run([&] {
    std::array<std::byte, 1> block{};
    for (int i = 0; i < 1000; ++i) {
      block[0] = static_cast<std::byte>(i);
      CHECK(lagom::io::write(pair[0], block) == 1);
      block[0] = std::byte{255};
      CHECK(lagom::io::read(pair[0], block) == 1);
      CHECK(block[0] == static_cast<std::byte>(i));
    }
    ::shutdown(pair[0], SHUT_WR);
  });
  other.join();
}

TEST_CASE("numbers are used again, on whatever worker") {
  lagom::runtime rt(with_workers(2));
  rt.run([&] {
    std::vector<lagom::fiber> all;
    for (int i = 0; i < 8; ++i) {
      all.push_back(lagom::spawn([] {
        for (int round = 0; round < 200; ++round) {
          descriptor_pair pair;
          lagom::fiber writer = lagom::spawn([&] { lagom::io::write(pair[1], bytes_of("y")); });
          std::array<std::byte, 4> block{};
          CHECK(lagom::io::read(pair[0], block) == 1);
          CHECK(block[0] == std::byte{'y'});
          writer.join();
        }
      }));
    }
    for (lagom::fiber& f : all) f.join();
  });
}

TEST_CASE("a loop over waits that are over at once lets others run") {
  lagom::runtime rt(with_workers(1));
  descriptor_pair pair;
  rt.run([&] {
    bool done = false;
    lagom::fiber other = lagom::spawn([&] { done = true; });
    while (!done) lagom::io::wait_readable(pair[0], steady_clock::now());
    other.join();
    done = false;
    lagom::fiber another = lagom::spawn([&] { done = true; });
    while (!done) lagom::io::wait_writable(pair[0], steady_clock::time_point::min());
    another.join();
  });
}

TEST_CASE("reading and writing what is always ready lets others run") {
  lagom::runtime rt(with_workers(1));
  rt.run([&] {
    const int zero = ::open("/dev/zero", O_RDWR | O_CLOEXEC);
    std::array<std::byte, 64> block{};
    bool done = false;
    lagom::fiber other = lagom::spawn([&] { done = true; });
    while (!done) lagom::io::read(zero, block);
    other.join();
    done = false;
    lagom::fiber another = lagom::spawn([&] { done = true; });
    while (!done) lagom::io::write(zero, block);
    another.join();
    ::close(zero);
  });
}
