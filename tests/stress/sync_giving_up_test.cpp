// SPDX-License-Identifier: BSL-1.0
// A waiter that gives up, by its time or by a stop, passes on what it was about to get.
#include <random>

#include "unit/runtime/sync_crowd.hpp"

using namespace sync_test;

namespace {

constexpr int members_of_crowd = 32;

// `attempt(limit)` takes the one permit if it can, within the limit; `give` returns it. First with short limits, then
// without: then everybody must get it.
template <class Attempt, class Give>
void give_up_at_random(const setting& s, std::chrono::nanoseconds duration, Attempt attempt, Give give) {
  std::atomic<int> held{0};
  std::vector<std::atomic<int>> calm(members_of_crowd);
  crowd c(s);
  const auto until = clock::now() + duration;
  c.start_many(members_of_crowd, [&](int i) {
    std::minstd_rand random(static_cast<unsigned>(i) + 1);
    auto hold_it = [&](std::chrono::nanoseconds limit) {
      if (!attempt(limit)) return false;
      c.expect(held.fetch_add(1) == 0, "held twice");
      if (random() % 3 == 0) nap(std::chrono::microseconds(random() % 60));
      held.fetch_sub(1);
      give();
      return true;
    };
    while (clock::now() < until) {
      hold_it(std::chrono::microseconds(random() % 200));
      if (random() % 8 == 0) lagom::this_fiber::yield();
    }
    for (int k = 0; k < 10; ++k) calm[static_cast<std::size_t>(i)] += hold_it(1h);
  });
  c.finish();
  for (auto& n : calm) CHECK(n == 10);
  CHECK(attempt(0ns));  // the permit is there
  CHECK_FALSE(attempt(0ns));
}

std::chrono::nanoseconds run_time() { return is_short() ? 100ms : 500ms; }

}  // namespace

TEST_CASE("giving up: semaphore") {
  for (const setting& s : settings) {
    lagom::binary_semaphore sem(1);
    give_up_at_random(
        s, run_time(), [&](auto limit) { return sem.try_acquire_for(limit); }, [&] { sem.release(); });
  }
}

TEST_CASE("giving up: mutex") {
  for (const setting& s : settings) {
    lagom::timed_mutex m;
    give_up_at_random(
        s, run_time(), [&](auto limit) { return m.try_lock_for(limit); }, [&] { m.unlock(); });
  }
}

TEST_CASE("giving up: automatic event") {
  for (const setting& s : settings) {
    lagom::event e(lagom::reset::automatic);
    e.set();
    give_up_at_random(
        s, run_time(), [&](auto limit) { return e.wait_for(limit); }, [&] { e.set(); });
  }
}

TEST_CASE("giving up: condition variable with a counted token") {
  for (const setting& s : settings) {
    lagom::mutex m;
    lagom::condition_variable cv;
    int tokens = 1;
    // One notify_one per token: were it lost to a waiter that gives up, somebody with a limit of an hour would hang.
    auto attempt = [&](std::chrono::nanoseconds limit) {
      std::unique_lock lock(m);
      if (tokens == 0 && limit > 0ns) {
        const auto until = clock::now() + limit;
        while (tokens == 0 && cv.wait_until(lock, until) == std::cv_status::no_timeout) {
        }
      }
      return tokens > 0 && tokens-- > 0;
    };
    auto give = [&] {
      {
        const std::lock_guard hold(m);
        ++tokens;
      }
      cv.notify_one();
    };
    give_up_at_random(s, run_time(), attempt, give);
  }
}

TEST_CASE("giving up: channel of one token") {
  for (const setting& s : settings) {
    for (std::size_t capacity : {std::size_t{1}, std::size_t{3}}) {
      lagom::channel<std::unique_ptr<int>> ch(capacity);
      ch.send(std::make_unique<int>(42));
      std::atomic<int> wrong{0};
      give_up_at_random(
          s, run_time() / 2,
          [&](auto limit) {
            std::unique_ptr<int> item;
            if (ch.receive_for(item, limit) != lagom::channel_status::ok) return false;
            wrong += !item || *item != 42;
            return true;
          },
          [&] { ch.send(std::make_unique<int>(42)); });
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("giving up: waits ended by stop requests") {
  for (const auto& [workers, chaos] : {std::pair{1u, 0u}, {2u, 0u}, {2u, 5u}}) {
    lagom::runtime_options options;
    options.workers = workers;
    options.chaos_seed = chaos;
    lagom::runtime rt(options);
    lagom::binary_semaphore sem(1);
    std::atomic<int> held{0}, wrong{0};
    std::atomic<long> got{0};
    auto body = [&] {
      try {
        for (;;) {
          sem.acquire();
          wrong += held.fetch_add(1) != 0;
          got.fetch_add(1);
          lagom::this_fiber::yield();
          held.fetch_sub(1);
          sem.release();
          if (lagom::this_fiber::stop_requested()) return;
        }
      } catch (const std::system_error& e) {
        wrong += e.code() != lagom::errc::stopped;
      }
    };
    std::minstd_rand random(workers);
    std::vector<lagom::fiber> fibers;
    for (int i = 0; i < members_of_crowd; ++i) fibers.push_back(rt.spawn(body));
    for (const auto until = clock::now() + run_time(); clock::now() < until;) {
      lagom::fiber& victim = fibers[random() % fibers.size()];
      victim.request_stop();
      victim.join();
      victim = rt.spawn(body);
    }
    for (lagom::fiber& f : fibers) f.request_stop();
    for (lagom::fiber& f : fibers) f.join();
    CHECK(wrong == 0);
    CHECK(got > 0);
    CHECK(sem.try_acquire());
    CHECK_FALSE(sem.try_acquire());
  }
}
