// SPDX-License-Identifier: BSL-1.0
// Living in somebody else's program: several runtimes, primitives shared with plain threads.
#include <mutex>

#include "scenario.hpp"

using namespace lagom::tests;

TEST_CASE("30c: two runtimes exchange messages and stop in either order") {
  const leak_check leaks;
  for (const bool first_goes_first : {true, false}) {
    auto first = std::make_unique<lagom::runtime>(lagom::runtime_options{.workers = 2});
    auto second = std::make_unique<lagom::runtime>(lagom::runtime_options{.workers = 1});
    const long n = count_of(100'000, 100'000);
    lagom::channel<long> there(8), back(8);
    lagom::fiber echo = second->spawn([&] {
      for (const long v : there) back.send(v + 1);
      back.close();
    });
    lagom::fiber sends = first->spawn([&] {
      for (long i = 0; i < n; ++i) there.send(i);
      there.close();
    });
    const long sum = first->run([&] {
      long received = 0;
      for (const long v : back) received += v;
      return received;
    });
    CHECK(sum == n * (n + 1) / 2);
    // Both have fibers that wait when they are stopped.
    lagom::event never_set;
    for (lagom::runtime* rt : {first.get(), second.get()}) {
      rt->spawn_detached([&] { (void)error_of([&] { never_set.wait(); }); });
    }
    sends.join();
    echo.join();
    (first_goes_first ? first : second).reset();
    const long still = (first_goes_first ? second : first)->run([] { return 1L; });
    CHECK(still == 1);
    (first_goes_first ? second : first).reset();
  }
  leaks.check();
}

namespace {

struct shared_state {
  lagom::mutex m;
  lagom::condition_variable cv;
  lagom::channel<long> numbers{4};
  long guarded = 0, tokens = 0, taken = 0;
  std::atomic<long> sum{0};
};

// Counts under the mutex, gives and takes tokens by the condition variable; every other one sends, the others receive.
void take_part(shared_state& s, int me, long turns) {
  for (long i = 0; i < turns; ++i) {
    {
      const std::lock_guard hold(s.m);
      ++s.guarded;
      ++s.tokens;
    }
    s.cv.notify_one();
    {
      std::unique_lock lock(s.m);
      s.cv.wait(lock, [&] { return s.tokens > 0; });
      --s.tokens;
      ++s.taken;
    }
    if (me % 2 == 0) {
      if (s.numbers.send(i) == lagom::channel_status::ok) s.sum += i;
    } else {
      long got = 0;
      if (s.numbers.receive(got) == lagom::channel_status::ok) s.sum -= got;
    }
  }
}

}  // namespace

TEST_CASE("30d: four threads and eight fibers share a mutex, a condition variable and a channel") {
  for (const unsigned workers : {1u, 2u}) {
    lagom::runtime rt({.workers = workers});
    shared_state s;
    const long turns = count_of(3000, 30'000);
    std::vector<std::thread> threads;
    std::vector<lagom::fiber> fibers;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&, i] { take_part(s, i, turns); });
    for (int i = 0; i < 8; ++i) fibers.push_back(rt.spawn([&, i] { take_part(s, i, turns); }));
    for (lagom::fiber& f : fibers) f.join();
    for (std::thread& t : threads) t.join();
    CHECK(s.guarded == 12 * turns);
    CHECK(s.taken == 12 * turns);
    CHECK(s.tokens == 0);
    CHECK(s.sum == 0);
    CHECK(s.numbers.size() == 0);
  }
}
