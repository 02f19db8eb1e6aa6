// SPDX-License-Identifier: BSL-1.0
// A waiter that gives up, by its time or by a stop, at the very moment when it is given the permit: the permit must go to
// somebody. tests/stress/sync_giving_up_test.cpp has time-outs alone, for more primitives, with threads.
#include <random>
#include <thread>

#include "scenario.hpp"

using namespace lagom::tests;

namespace {

constexpr int crowd_size = 32;
constexpr auto no_limit = std::chrono::nanoseconds::max();

// One permit. take(limit) is true if it was got, may throw errc::stopped; give() returns it.
struct game {
  std::function<bool(std::chrono::nanoseconds)> take;
  std::function<void()> give;
};

class table {
 public:
  table(lagom::runtime& rt, const game& g) : rt_(rt), game_(g) {
    for (int i = 0; i < crowd_size; ++i) seats_.push_back(sit_down(i));
  }

  // Fibers are stopped at random, from outside, and replaced.
  void disturb(std::chrono::nanoseconds d) {
    std::minstd_rand random(7);
    for (const auto until = clock::now() + d; clock::now() < until;) {
      const auto victim = static_cast<int>(random() % crowd_size);
      lagom::fiber& f = seats_[static_cast<std::size_t>(victim)];
      f.request_stop();
      f.join();
      f = sit_down(victim);
      if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
    }
  }
  // From now on nobody gives up, and everybody gets it.
  void calm_down() {
    calm_ = true;
    for (lagom::fiber& f : seats_) REQUIRE(f.join_for(limit(30s)));
    for (const std::atomic<int>& n : in_calm_) CHECK(n == calm_rounds);
    CHECK(taken_ > crowd_size);
    CHECK(given_up_ > 0);
    CHECK(stopped_ > 0);
  }

 private:
  static constexpr int calm_rounds = 20;

  lagom::fiber sit_down(int i) {
    return rt_.spawn([this, i] {
      std::minstd_rand random(static_cast<unsigned>(++born_));
      try {
        while (!calm_ && !lagom::this_fiber::stop_requested()) play(random() % 3 == 0 ? no_limit : 100us, static_cast<unsigned>(random() % 40));
      } catch (const std::system_error& e) {
        v_.expect(e.code() == lagom::errc::stopped, e.what());
      }
      if (lagom::this_fiber::stop_requested()) {
        ++stopped_;
        return;
      }
      for (int k = 0; k < calm_rounds; ++k) in_calm_[static_cast<std::size_t>(i)] += play(no_limit, 1);
    });
  }

  bool play(std::chrono::nanoseconds limit, unsigned microseconds) {
    if (!game_.take(limit)) {
      ++given_up_;
      return false;
    }
    v_.expect(held_.fetch_add(1) == 0, "held twice");
    ++taken_;
    // Whoever holds it is suspended now and then, also beyond the others' limit, and not to be stopped meanwhile.
    {
      const lagom::uninterruptible holding;
      if (microseconds > 30) {
        lagom::this_fiber::sleep_for(150us);
      } else if (microseconds > 10) {
        lagom::this_fiber::yield();
      }
    }
    held_.fetch_sub(1);
    game_.give();
    return true;
  }

  lagom::runtime& rt_;
  const game& game_;
  verdict v_;
  std::atomic<bool> calm_{false};
  std::atomic<int> held_{0};
  std::atomic<long> taken_{0}, given_up_{0}, stopped_{0}, born_{0};
  std::array<std::atomic<int>, crowd_size> in_calm_{};
  std::vector<lagom::fiber> seats_;
};

void play(const game& g) {
  for (const std::uint64_t seed : {0u, 5u}) {
    lagom::runtime_options options = scenario_options(2);
    options.chaos_seed = seed;
    lagom::runtime rt(options);
    table t(rt, g);
    t.disturb(window(400ms, 15s));
    t.calm_down();
    // The permit is there, once.
    CHECK(g.take(0ns));
    CHECK_FALSE(g.take(0ns));
    g.give();
  }
}

}  // namespace

TEST_CASE("3: semaphore, with limits and stops") {
  lagom::binary_semaphore sem(1);
  play({[&](auto limit) { return limit == no_limit ? (sem.acquire(), true) : sem.try_acquire_for(limit); }, [&] { sem.release(); }});
}

// One notify_one per token: one that went to a waiter which gives up, and was not passed on, would leave somebody asleep.
TEST_CASE("3: condition variable with a counted token, with limits and stops") {
  lagom::mutex m;
  lagom::condition_variable cv;
  int tokens = 1;
  std::atomic<unsigned> turn{0};
  const auto take = [&](std::chrono::nanoseconds limit) {
    std::unique_lock lock(m);
    const auto there = [&] { return tokens > 0; };
    if (limit != no_limit) {
      if (!cv.wait_for(lock, limit, there)) return false;
    } else if (++turn % 2 == 0) {
      cv.wait(lock, there);
    } else if (!cv.wait(lock, lagom::this_fiber::get_stop_token(), there)) {
      return false;
    }
    --tokens;
    return true;
  };
  play({take, [&] {
          {
            const std::lock_guard hold(m);
            ++tokens;
          }
          cv.notify_one();
        }});
  CHECK(tokens == 1);
}

TEST_CASE("3: mutex with limits; a stop does not end lock()") {
  lagom::timed_mutex m;
  play({[&](auto limit) { return limit == no_limit ? (m.lock(), true) : m.try_lock_for(limit); }, [&] { m.unlock(); }});
}

TEST_CASE("3: automatic event, with limits and stops") {
  lagom::event e(lagom::reset::automatic);
  e.set();
  play({[&](auto limit) { return limit == no_limit ? (e.wait(), true) : e.wait_for(limit); }, [&] { e.set(); }});
}
