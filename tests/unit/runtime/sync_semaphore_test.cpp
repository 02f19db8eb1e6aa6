// SPDX-License-Identifier: BSL-1.0
#include <lagom/semaphore.hpp>

#include "sync_crowd.hpp"

using namespace sync_test;

static_assert(lagom::counting_semaphore<7>::max() == 7 && lagom::binary_semaphore::max() == 1);
static_assert(!std::is_copy_constructible_v<lagom::binary_semaphore>);

TEST_CASE("semaphore: try_acquire takes what is free") {
  lagom::counting_semaphore<> sem(2);
  CHECK(sem.try_acquire());
  CHECK(sem.try_acquire());
  CHECK_FALSE(sem.try_acquire());
  CHECK_FALSE(sem.try_acquire_for(0s));
  CHECK_FALSE(sem.try_acquire_for(-1h));
  sem.release();
  CHECK(sem.try_acquire_for(-1h));
  sem.release(3);
  for (int i = 0; i < 3; ++i) CHECK(sem.try_acquire());
  CHECK_FALSE(sem.try_acquire());
}

TEST_CASE("semaphore: at most n inside, and all permits come back") {
  for (const setting& s : settings) {
    lagom::counting_semaphore<3> sem(3);
    std::atomic<int> inside{0};
    crowd c(s);
    c.start_many(12, [&](int i) {
      for (int k = 0; k < rounds(500); ++k) {
        if (i % 3 == 0) {
          if (!sem.try_acquire_for(std::chrono::microseconds(k % 20))) continue;
        } else {
          sem.acquire();
        }
        c.expect(inside.fetch_add(1) < 3, "more than three inside");
        if (k % 7 == 0) nap(5us);
        inside.fetch_sub(1);
        sem.release();
      }
    });
    c.finish();
    for (int i = 0; i < 3; ++i) CHECK(sem.try_acquire());
    CHECK_FALSE(sem.try_acquire());
  }
}

TEST_CASE("semaphore: first come, first served") {
  lagom::runtime_options options;
  options.workers = 1;
  lagom::runtime rt(options);
  rt.run([] {
    lagom::counting_semaphore<> sem(0);
    std::vector<int> order;
    std::vector<lagom::fiber> fibers;
    for (int i = 0; i < 5; ++i) {
      fibers.push_back(lagom::spawn([&, i] {
        sem.acquire();
        order.push_back(i);
      }));
      nap(1ms);  // one after the other into the queue
    }
    sem.release(5);
    for (lagom::fiber& f : fibers) f.join();
    CHECK(order == std::vector<int>{0, 1, 2, 3, 4});
  });
}

TEST_CASE("semaphore: release(n) wakes at most n, also more than a batch, and keeps the rest") {
  for (const setting& s : settings) {
    lagom::counting_semaphore<> sem(0);
    std::atomic<int> through{0};
    crowd c(s);
    c.start_many(40, [&](int) {
      sem.acquire();
      ++through;
    });
    c.start([&] {
      let_others_run();
      sem.release(0);
      sem.release(39);
      while (through < 39) nap(100us);
      let_others_run();
      c.expect(through == 39, "a permit too many");
      sem.release(3);
    });
    c.finish();
    CHECK(sem.try_acquire());
    CHECK(sem.try_acquire());
    CHECK_FALSE(sem.try_acquire());
  }
}

TEST_CASE("semaphore: the time") {
  for (const setting& s : settings) {
    lagom::binary_semaphore sem(0);
    crowd c(s);
    c.start_many(3, [&](int) {
      const auto begin = clock::now();
      c.expect(!sem.try_acquire_for(2ms), "nothing to acquire");
      c.expect(clock::now() - begin >= 2ms, "too early");
      c.expect(!sem.try_acquire_until(begin), "past");
    });
    c.finish();
    CHECK_FALSE(sem.try_acquire());
  }
}

TEST_CASE("semaphore: a stop request ends the wait and takes no permit") {
  for (unsigned workers : {1u, 2u}) {
    lagom::runtime_options options;
    options.workers = workers;
    lagom::runtime rt(options);
    lagom::counting_semaphore<> sem(0);
    std::atomic<int> waiting{0}, thrown{0}, refused{0};
    lagom::fiber a = rt.spawn([&] {
      ++waiting;
      try {
        sem.acquire();
      } catch (const std::system_error& e) {
        if (e.code() == lagom::errc::stopped) ++thrown;
      }
      sem.release();
      sem.acquire();  // no need to wait: a stop does not matter
    });
    lagom::fiber b = rt.spawn([&] {
      ++waiting;
      if (!sem.try_acquire_for(1h)) ++refused;
    });
    while (waiting != 2) std::this_thread::yield();
    b.request_stop();
    b.join();
    a.request_stop();
    a.join();
    CHECK(thrown == 1);
    CHECK(refused == 1);
    CHECK_FALSE(sem.try_acquire());
  }
}
