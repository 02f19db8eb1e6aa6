// SPDX-License-Identifier: BSL-1.0
// Spawning and joining without end, with sleeping workers in between: no wake-up is lost, none is found late by a poll.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <random>

#include "scenario.hpp"

using namespace lagom::tests;

TEST_CASE("1a: a fiber, then a thread, spawns and joins without end") {
  for_each_worker_count(
      [](lagom::runtime& rt) {
        double longest = 0;
        std::atomic<long> ran{0};
        const auto repeat = [&](long n, auto spawn) {
          for (long i = 0; i < n; ++i) {
            const auto begun = clock::now();
            spawn([&] { ++ran; }).join();
            longest = std::max(longest, milliseconds(clock::now() - begun));
          }
        };
        const long inside = count_of(200'000, 200'000), outside = count_of(20'000, 200'000);
        rt.run([&] { repeat(inside, [](auto f) { return lagom::spawn(f); }); });
        repeat(outside, [&](auto f) { return rt.spawn(f); });
        CHECK(ran == inside + outside);
        CHECK(longest < milliseconds(limit(1s)));
      },
      {}, {1, 2, 4});
}

namespace {

// An idle listening socket on the loopback.
class listener {
 public:
  listener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(fd_, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0);
    REQUIRE(::listen(fd_, 1) == 0);
  }
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;
  ~listener() { ::close(fd_); }
  int fd() const { return fd_; }

 private:
  int fd_;
};

// Rounds that end when somebody happens to look, because nobody woke anybody, crowd at the length of that period. Bins
// a tenth wide from 0.5 ms; a bin with far more than its neighbours is such a crowd.
std::string crowd_in(const std::vector<double>& rounds_ms) {
  std::array<long, 80> bins{};
  for (const double ms : rounds_ms) {
    const auto bin = static_cast<long>(std::log(ms / 0.5) / std::log(1.1));
    if (ms >= 0.5 && bin < static_cast<long>(bins.size())) ++bins[static_cast<std::size_t>(bin)];
  }
  for (std::size_t i = 3; i + 3 < bins.size(); ++i) {
    const double around = static_cast<double>(bins[i - 3] + bins[i - 2] + bins[i + 2] + bins[i + 3]) / 4;
    const double enough = std::max(20.0, 0.01 * static_cast<double>(rounds_ms.size()));
    if (static_cast<double>(bins[i]) > enough + 5 * around) {
      return std::to_string(bins[i]) + " rounds took about " + std::to_string(0.5 * std::pow(1.1, i)) + " ms";
    }
  }
  return {};
}

}  // namespace

TEST_CASE("1b: workers that sleep, an idle socket and a timer far away: each spawn from outside is seen at once") {
  lagom::runtime rt({.workers = 2});
  const listener idle_socket;
  lagom::fiber waits = rt.spawn([&] { (void)lagom::io::wait_readable(idle_socket.fd()); });
  lagom::fiber sleeps = rt.spawn([] { (void)error_of([] { lagom::this_fiber::sleep_for(1h); }); });
  std::minstd_rand random(17);
  std::vector<double> rounds_ms;
  const long n = count_of(20'000, 100'000);
  for (long i = 0; i < n; ++i) {
    std::atomic<bool> flag{false};
    const auto begun = clock::now();
    rt.spawn_detached([&] { flag = true; });
    while (!flag && clock::now() - begun < 30s) {
    }
    REQUIRE(flag);
    rounds_ms.push_back(milliseconds(clock::now() - begun));
    compute(std::chrono::microseconds(random() % 61));
  }
  CHECK(crowd_in(rounds_ms) == "");
  CHECK(percentile(rounds_ms, 100) < milliseconds(limit(1s)));
  const auto slow = std::count_if(rounds_ms.begin(), rounds_ms.end(), [](double ms) { return ms > milliseconds(limit(50ms)); });
  CHECK(static_cast<double>(slow) <= std::max(1.0, 0.0001 * static_cast<double>(n)));
  CHECK_FALSE(waits.join_for(0ms));
  CHECK_FALSE(sleeps.join_for(0ms));
}
