// SPDX-License-Identifier: BSL-1.0
// Idle is idle: sleepers and waiters cost nothing; a job from outside wakes one worker, not all.
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <numeric>

#include "scenario.hpp"

using namespace lagom::tests;

namespace {

struct usage {
  std::chrono::nanoseconds cpu{0};
  long switches = 0;
};

usage usage_now() {
  rusage r{};
  ::getrusage(RUSAGE_SELF, &r);
  const auto time = [](const timeval& t) { return std::chrono::seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec); };
  return {time(r.ru_utime) + time(r.ru_stime), r.ru_nvcsw + r.ru_nivcsw};
}

// How many socket pairs this process may have, at most 1,000.
std::size_t pairs_allowed() {
  rlimit r{};
  ::getrlimit(RLIMIT_NOFILE, &r);
  r.rlim_cur = r.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &r);
  return std::min<std::size_t>(1000, (static_cast<std::size_t>(r.rlim_cur) - 100) / 2);
}

struct waiting_socket {
  std::array<int, 2> ends{-1, -1};
  clock::time_point written, read;
  lagom::event done;
};

}  // namespace

TEST_CASE("23a: a thousand sleepers and a thousand idle sockets cost nothing, and wake at once") {
  lagom::runtime rt({.workers = 2});
  const std::size_t n = is_short() ? 100 : pairs_allowed();
  std::vector<lagom::fiber> sleepers;
  std::vector<std::unique_ptr<waiting_socket>> sockets;
  std::vector<lagom::fiber> readers;
  for (std::size_t i = 0; i < n; ++i) {
    sleepers.push_back(rt.spawn([] { (void)error_of([] { lagom::this_fiber::sleep_for(1h); }); }));
    sockets.push_back(std::make_unique<waiting_socket>());
    waiting_socket& s = *sockets.back();
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, s.ends.data()) == 0);
    readers.push_back(rt.spawn([&s] {
      if (lagom::io::wait_readable(s.ends[0])) return;
      s.read = clock::now();
      s.done.set();
    }));
  }
  const auto parked = [](const lagom::fiber& f) { return f.stats().state == lagom::fiber_state::parked; };
  REQUIRE(becomes_true([&] { return std::all_of(readers.begin(), readers.end(), parked); }, limit(10s)));
  REQUIRE(becomes_true([&] { return std::all_of(sleepers.begin(), sleepers.end(), parked); }, limit(10s)));
  std::this_thread::sleep_for(100ms);

  const usage before = usage_now();
  const auto quiet = window(2s, 10s);
  std::this_thread::sleep_for(quiet);
  const usage after = usage_now();
  CHECK(milliseconds(after.cpu - before.cpu) < milliseconds(limit(50ms)));
  CHECK(after.switches - before.switches < 200);

  std::vector<double> delays_ms;
  for (const auto& s : sockets) {
    s->written = clock::now();
    REQUIRE(::write(s->ends[1], "x", 1) == 1);
    REQUIRE(s->done.wait_for(limit(5s)));
    delays_ms.push_back(milliseconds(s->read - s->written));
    std::this_thread::sleep_for(200us);
  }
  CHECK(percentile(delays_ms, 50) < milliseconds(limit(1ms)));
  CHECK(percentile(delays_ms, 99) < milliseconds(limit(5ms)));
  for (lagom::fiber& f : readers) f.join();
  sleepers.clear();
  for (const auto& s : sockets) {
    for (const int end : s->ends) ::close(end);
  }
}

TEST_CASE("23b: a fiber spawned from outside wakes few workers, however many there are") {
  std::vector<double> cpu_seconds;
  for (const unsigned workers : {1u, 2u, 4u, 8u}) {
    INFO("workers: ", workers);
    lagom::runtime rt({.workers = workers});
    std::this_thread::sleep_for(50ms);
    const auto wakeups = [&] {
      const auto s = rt.stats();
      return std::accumulate(s.workers.begin(), s.workers.end(), 0.0, [](double sum, const auto& w) { return sum + static_cast<double>(w.wakeups); });
    };
    const double woken_before = wakeups();
    const usage before = usage_now();
    const long spawns = count_of(1000, 5000);
    auto due = clock::now();
    for (long i = 0; i < spawns; ++i) {
      std::this_thread::sleep_until(due += 1ms);
      rt.spawn_detached([] {});
    }
    CHECK((wakeups() - woken_before) / static_cast<double>(spawns) <= 3);
    cpu_seconds.push_back(std::chrono::duration<double>(usage_now().cpu - before.cpu).count());
  }
  CHECK(cpu_seconds.back() <= 2 * cpu_seconds.front() + 0.02);
}
