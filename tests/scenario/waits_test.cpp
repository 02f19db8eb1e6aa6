// SPDX-License-Identifier: BSL-1.0
// Timed waits that race with notifications, and primitives that live on the stack of the one who waits.
#include <array>
#include <cstring>
#include <mutex>
#include <random>

#include "scenario.hpp"

using namespace lagom::tests;

namespace {

constexpr int waiters = 64;

struct race {
  lagom::mutex m, second;
  lagom::condition_variable cv;
  std::array<std::atomic<long>, waiters> turns{};
  std::atomic<bool> over{false};
  verdict v;
  long guarded = 0;
};

void wait_in_turns(race& r, int i) {
  constexpr std::array<std::chrono::nanoseconds, 5> times{0ns, 1ns, 1us, 20us, 200us};
  std::minstd_rand random(static_cast<unsigned>(i) + 1);
  while (!r.over) {
    {
      const auto d = times[random() % times.size()];
      std::unique_lock lock(r.m);
      const auto begun = clock::now();
      const std::cv_status how = r.cv.wait_for(lock, d);
      r.v.expect(how == std::cv_status::no_timeout || clock::now() - begun >= d, "timed out before its time");
      r.v.expect(lock.owns_lock(), "came back without the lock");
    }
    compute(5us);
    const std::lock_guard hold(r.second);
    ++r.guarded;
    ++r.turns[static_cast<std::size_t>(i)];
  }
}

void notify_at_random(race& r) {
  std::minstd_rand random(99);
  while (!r.over) {
    (random() % 2 == 0) ? r.cv.notify_all() : r.cv.notify_one();
    lagom::this_fiber::sleep_for(std::chrono::microseconds(random() % 201));
  }
}

}  // namespace

TEST_CASE("2: timed waits race with notifications, and everybody gets on") {
  lagom::runtime rt({.workers = 2});
  race r;
  std::vector<lagom::fiber> fibers;
  const auto begun = clock::now();
  for (int i = 0; i < waiters; ++i) fibers.push_back(rt.spawn([&r, i] { wait_in_turns(r, i); }));
  fibers.push_back(rt.spawn([&r] { notify_at_random(r); }));
  const auto whole = window(4s, 20s);
  int windows = 0, still = 0;
  long before = 0;
  while (clock::now() - begun < whole) {
    std::this_thread::sleep_for(limit(100ms) / (is_short() ? 4 : 1));
    long sum = 0;
    for (const auto& n : r.turns) sum += n;
    ++windows;
    still += sum == before;
    before = sum;
  }
  r.over = true;
  CHECK(still <= windows / 100);
  long sum = 0;
  const long least = is_short() ? 1 : static_cast<long>(1000 * whole / 20s);
  for (int i = 0; i < waiters; ++i) {
    REQUIRE(fibers[static_cast<std::size_t>(i)].join_for(limit(10s)));
    CHECK(r.turns[static_cast<std::size_t>(i)] > least);
    sum += r.turns[static_cast<std::size_t>(i)];
  }
  fibers.back().join();
  CHECK(sum == r.guarded);
}

namespace {

// What a waiter has put on its stack for somebody to signal.
struct request {
  enum class what { event, semaphore, condition, end } kind;
  void* target;
};

struct condition {
  lagom::mutex m;
  lagom::condition_variable cv;
  bool set = false;
};

void signal(const request& r) {
  switch (r.kind) {
    case request::what::event: static_cast<lagom::event*>(r.target)->set(); break;
    case request::what::semaphore: static_cast<lagom::binary_semaphore*>(r.target)->release(); break;
    case request::what::condition: {
      auto& c = *static_cast<condition*>(r.target);
      const std::lock_guard hold(c.m);
      c.set = true;
      c.cv.notify_one();
      break;
    }
    case request::what::end: break;
  }
}

void serve(lagom::channel<request>& requests) {
  request r{};
  while (requests.receive(r) == lagom::channel_status::ok) signal(r);
}

// Not inlined, so that its frame is gone when it returns.
[[gnu::noinline]] void wait_on_own_stack(int kind, lagom::channel<request>& requests) {
  switch (kind) {
    case 0: {
      lagom::event e;
      requests.send({request::what::event, &e});
      e.wait();
      break;
    }
    case 1: {
      lagom::binary_semaphore s(0);
      requests.send({request::what::semaphore, &s});
      s.acquire();
      break;
    }
    case 2: {
      condition c;
      std::unique_lock lock(c.m);
      requests.send({request::what::condition, &c});
      c.cv.wait(lock, [&] { return c.set; });
      break;
    }
    case 3: {
      lagom::event e(lagom::reset::automatic);
      requests.send({request::what::event, &e});
      while (!e.wait_for(20us)) {
      }
      break;
    }
    default: {
      lagom::fiber f = lagom::spawn([] {});
      f.join();
    }
  }
}

// Where that frame was: nobody may write there any more.
[[gnu::noinline]] bool is_left_alone() {
  unsigned char pattern[2048];
  std::memset(pattern, 0xa5, sizeof pattern);
  asm volatile("" : : "r"(pattern) : "memory");
  for (const auto until = clock::now() + 50us; clock::now() < until;) lagom::this_fiber::yield();
  asm volatile("" : : "r"(pattern) : "memory");
  return std::all_of(std::begin(pattern), std::end(pattern), [](unsigned char c) { return c == 0xa5; });
}

}  // namespace

TEST_CASE("4: what is on the waiter's stack is not touched once the waiter is back") {
  lagom::runtime rt({.workers = 2});
  lagom::channel<request> requests(4);
  verdict v;
  constexpr int fibers_count = 16;
  const long each = count_of(50'000, 500'000) / fibers_count;
  std::vector<lagom::fiber> servers, fibers;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    servers.push_back(rt.spawn([&] { serve(requests); }));
    threads.emplace_back([&] { serve(requests); });
  }
  for (int i = 0; i < fibers_count; ++i) {
    fibers.push_back(rt.spawn([&, i] {
      for (long turn = 0; turn < each; ++turn) {
        wait_on_own_stack(static_cast<int>((turn + i) % 5), requests);
        v.expect(is_left_alone(), "the frame of a wait was written to after it");
      }
    }));
  }
  for (lagom::fiber& f : fibers) f.join();
  requests.close();
  for (lagom::fiber& f : servers) f.join();
  for (std::thread& t : threads) t.join();
}
