// SPDX-License-Identifier: BSL-1.0
// A server out of descriptors with clients at the door: accept loops have burnt a core on EMFILE, flooded the log, and
// slept on when descriptors came back. And held connections whose peers have reset: level-triggered loops spin on them.
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <lagom/io.hpp>
#include <lagom/net.hpp>

#include "support/fixture.hpp"

using namespace lagom::tests;
using lagom::net::endpoint;
using lagom::net::tcp_listener;
using lagom::net::tcp_stream;

namespace {

constexpr std::size_t client_count = 200;
constexpr std::size_t closed_count = 20;
constexpr rlim_t descriptor_limit = 64;

std::atomic<long> failed_accepts{0};

}  // namespace

// Stands in for the C library's, to count what fails.
extern "C" int accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  const long result = ::syscall(SYS_accept4, fd, address, size, flags);
  if (result < 0 && errno != EAGAIN) ++failed_accepts;
  return static_cast<int>(result);
}

namespace {

// ---- The clients: a process of their own, for its own limit. They use nothing of lagom.

int connect_to(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd < 0 || ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) ::_exit(3);
  return fd;
}

// How many have got their greeting back since the last call, waiting for `wanted` at most until the time.
std::size_t count_served(std::vector<int>& fds, std::vector<int>& served, std::size_t wanted, clock::time_point until) {
  std::size_t count = 0;
  while (count < wanted && clock::now() < until) {
    std::vector<pollfd> waiting;
    for (const int fd : fds) waiting.push_back({fd, POLLIN, 0});
    if (::poll(waiting.data(), waiting.size(), 1) <= 0) continue;
    for (const pollfd& p : waiting) {
      char c = 0;
      if ((p.revents & POLLIN) == 0 || ::read(p.fd, &c, 1) != 1) continue;
      std::erase(fds, p.fd);
      served.push_back(p.fd);
      ++count;
    }
  }
  return count;
}

struct client_report {
  std::size_t served_at_first, served_later;
  std::int64_t later_took_ns;
};

// Commands by pipe: 's' start, 'c' close some and see who is served then, 'r' reset all, end of file: end.
void play_clients(std::uint16_t port, int commands, int answers) {
  char command = 0;
  std::vector<int> waiting, served;
  client_report report{};
  while (::read(commands, &command, 1) == 1) {
    if (command == 's') {
      for (std::size_t i = 0; i < client_count; ++i) {
        waiting.push_back(connect_to(port));
        if (::send(waiting.back(), "h", 1, MSG_NOSIGNAL) != 1) ::_exit(4);
      }
      report.served_at_first = count_served(waiting, served, client_count, clock::now() + 2s);
    } else if (command == 'c') {
      const auto begin = clock::now();
      for (std::size_t i = 0; i < closed_count; ++i) {
        ::close(served.back());
        served.pop_back();
      }
      report.served_later = count_served(waiting, served, closed_count, clock::now() + 20s);
      report.later_took_ns = std::chrono::nanoseconds(clock::now() - begin).count();
    } else if (command == 'r') {
      const linger at_once{1, 0};
      for (const auto* all : {&waiting, &served}) {
        for (const int fd : *all) {
          ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
          ::close(fd);
        }
      }
    }
    if (::write(answers, &report, sizeof report) != sizeof report) ::_exit(5);
  }
  ::_exit(0);
}

class client_process {
 public:
  explicit client_process(std::uint16_t port) {
    std::array<int, 2> commands{}, answers{};
    REQUIRE(::pipe2(commands.data(), O_CLOEXEC) == 0);
    REQUIRE(::pipe2(answers.data(), O_CLOEXEC) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::close(commands[1]);
      play_clients(port, commands[0], answers[1]);
    }
    ::close(commands[0]);
    ::close(answers[1]);
    commands_ = commands[1];
    answers_ = answers[0];
  }
  ~client_process() {
    ::close(commands_);
    ::close(answers_);
    int status = -1;
    ::waitpid(pid_, &status, 0);
    CHECK(status == 0);
  }
  void tell(char command) const { CHECK(::write(commands_, &command, 1) == 1); }
  client_report answer() const {
    client_report report{};
    CHECK(::read(answers_, &report, sizeof report) == sizeof report);
    return report;
  }

 private:
  pid_t pid_ = -1;
  int commands_ = -1, answers_ = -1;
};

std::chrono::nanoseconds cpu_used() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto of = [](const timeval& t) { return std::chrono::seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec); };
  return of(used.ru_utime) + of(used.ru_stime);
}

class lowered_limit {
 public:
  lowered_limit() {
    // When UBSan first meets a class it looks at the object through a pipe, and without descriptors calls it broken.
    for (const std::error_code& code : {make_error_code(lagom::errc::stopped), make_error_code(std::errc::timed_out)}) {
      CHECK(error_of([&] { throw std::system_error(code); }) == code);
      CHECK(code != std::errc::interrupted);
    }
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const rlimit low{descriptor_limit, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  }
  ~lowered_limit() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

// Lateness of a fiber that sleeps 5 ms at a time.
class ticker {
 public:
  explicit ticker(lagom::runtime& rt) : fiber_(rt.spawn([this] { tick(); })) {}
  // All the latenesses so far, sorted.
  std::vector<std::chrono::nanoseconds> stop() {
    fiber_.request_stop();
    fiber_.join();
    std::sort(late_.begin(), late_.end());
    return late_;
  }

 private:
  void tick() {
    try {
      for (;;) {
        const auto due = clock::now() + 5ms;
        lagom::this_fiber::sleep_until(due);
        late_.push_back(clock::now() - due);
      }
    } catch (const std::system_error&) {
      // stopped
    }
  }
  std::vector<std::chrono::nanoseconds> late_;
  lagom::fiber fiber_;
};

void echo(tcp_stream stream) {
  std::error_code ec;
  std::array<std::byte, 16> block;
  while (const std::size_t n = stream.read_some(block, ec)) stream.write_all(std::span(block).first(n), ec);
}

void accept_all(tcp_listener& listener) {
  for (std::error_code ec;;) {
    tcp_stream stream = listener.accept(ec);
    if (ec) return;
    lagom::spawn_detached([stream = std::move(stream)]() mutable { echo(std::move(stream)); });
  }
}

}  // namespace

TEST_CASE("out of descriptors: no spinning, one report, and on as soon as some are free") {
  tcp_listener listener(endpoint::loopback(0));
  const client_process clients(listener.local_endpoint().port());
  const lowered_limit limited;
  std::atomic<int> reports{0};
  lagom::runtime_options options;
  options.workers = 2;
  options.log = [&](std::string_view line) { reports += line.find("accept") != std::string_view::npos; };
  lagom::runtime rt(options);
  lagom::fiber acceptor = rt.spawn([&] { accept_all(listener); });
  clients.tell('s');
  // Some are being served, the others wait at the door; now look at three seconds of that.
  const client_report before = clients.answer();
  CHECK(before.served_at_first >= 30);
  CHECK(before.served_at_first < descriptor_limit);
  CHECK(failed_accepts > 0);
  const std::chrono::nanoseconds time = window(3s, 3s);
  ticker ticks(rt);
  const std::chrono::nanoseconds cpu_before = cpu_used();
  const long failed_before = failed_accepts;
  std::this_thread::sleep_for(time);
  CHECK(failed_accepts - failed_before < 100 * time / 1s);
  CHECK(cpu_used() - cpu_before < limit(time / 10));
  const auto late = ticks.stop();
  REQUIRE(late.size() > 10);
  CHECK(late[late.size() * 99 / 100] < limit(20ms));

  clients.tell('c');
  const client_report after = clients.answer();
  CHECK(after.served_later == closed_count);
  CHECK(std::chrono::nanoseconds(after.later_took_ns) < limit(200ms));
  CHECK(reports <= 1);
  listener.close();
  acceptor.join();
  clients.tell('r');
  clients.answer();
  CHECK(rt.drain_for(limit(10s)));
}

TEST_CASE("held connections that were reset cost nothing") {
  tcp_listener listener(endpoint::loopback(0));
  const client_process clients(listener.local_endpoint().port());
  lagom::runtime_options options;
  options.workers = 2;
  lagom::runtime rt(options);
  std::atomic<bool> held{false}, over{false};
  lagom::fiber holder = rt.spawn([&] {
    std::vector<tcp_stream> streams;
    std::vector<int> bare;
    std::error_code ec;
    std::array<std::byte, 1> block;
    while (streams.size() < 10) {
      streams.push_back(listener.accept(ec));
      // A wait that ends by its deadline leaves the registration behind.
      streams.back().read_some(block, ec);
      streams.back().set_read_deadline(clock::now() + 1ms);
      streams.back().read_some(block, ec);
      CHECK(ec == std::errc::timed_out);
      // And so does one on a bare descriptor.
      bare.push_back(::dup(streams.back().native_handle()));
      CHECK(lagom::io::wait_readable(bare.back(), clock::now() + 1ms) == std::errc::timed_out);
    }
    held = true;
    while (!over) lagom::this_fiber::sleep_for(100ms);
    for (const int fd : bare) ::close(fd);
  });
  clients.tell('s');
  CHECK(becomes_true([&] { return held.load(); }, limit(10s)));
  clients.answer();
  clients.tell('r');
  clients.answer();
  const std::chrono::nanoseconds cpu_before = cpu_used();
  const std::chrono::nanoseconds time = window(2s, 5s);
  std::this_thread::sleep_for(time);
  CHECK(cpu_used() - cpu_before < limit(time / 100));
  over = true;
  holder.join();
}
