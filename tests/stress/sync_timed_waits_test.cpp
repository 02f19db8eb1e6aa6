// SPDX-License-Identifier: BSL-1.0
// Timed waits that race with notifications: every wait returns, none too early, nothing is torn, everybody gets on.
#include <array>
#include <random>

#include "unit/runtime/sync_crowd.hpp"

using namespace sync_test;

namespace {

constexpr std::array<std::chrono::nanoseconds, 5> times{0ns, 1ns, 1us, 20us, 200us};
constexpr int waiters = 64;

void compute(std::chrono::nanoseconds d) {
  for (const auto until = clock::now() + d; clock::now() < until;) {
  }
}

void race(const setting& s, std::chrono::nanoseconds duration) {
  lagom::mutex m, second;
  lagom::condition_variable cv;
  std::array<std::atomic<long>, waiters> turns{};
  std::atomic<bool> over{false};
  long guarded = 0;
  crowd c(s);
  c.start_many(waiters, [&](int i) {
    std::minstd_rand random(static_cast<unsigned>(i) + 1);
    while (!over) {
      {
        const auto d = times[random() % times.size()];
        std::unique_lock lock(m);
        const auto begin = clock::now();
        const std::cv_status how = cv.wait_for(lock, d);
        c.expect(how == std::cv_status::no_timeout || clock::now() - begin >= d, "earlier than its time");
        c.expect(lock.owns_lock(), "without the lock");
      }
      compute(5us);
      const std::lock_guard hold(second);
      ++guarded;
      turns[static_cast<std::size_t>(i)].fetch_add(1);
    }
  });
  c.start([&] {
    std::minstd_rand random(99);
    while (!over) {
      (random() % 4 == 0) ? cv.notify_all() : cv.notify_one();
      nap(std::chrono::microseconds(random() % 200));
    }
  });
  c.start([&] {
    long before = 0;
    for (const auto until = clock::now() + duration; clock::now() < until;) {
      nap(100ms);
      const std::lock_guard hold(second);
      c.expect(guarded > before, "no progress in 100 ms");
      before = guarded;
    }
    over = true;
  });
  c.finish();
  long sum = 0;
  for (auto& n : turns) {
    CHECK(n > 0);
    sum += n;
  }
  CHECK(sum == guarded);
}

}  // namespace

TEST_CASE("timed waits race with notifications") {
  for (const setting& s : settings) race(s, is_short() ? 300ms : 2s);
}
