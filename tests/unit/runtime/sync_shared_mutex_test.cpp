// SPDX-License-Identifier: BSL-1.0
#include <lagom/shared_mutex.hpp>

#include <mutex>
#include <shared_mutex>

#include "sync_crowd.hpp"

using namespace sync_test;

TEST_CASE("shared_mutex: readers together, a writer alone") {
  for (const setting& s : settings) {
    lagom::shared_mutex m;
    std::atomic<int> readers{0}, writers{0}, together{0};
    long written = 0;
    crowd c(s);
    c.start_many(8, [&](int i) {
      for (int k = 0; k < rounds(1000); ++k) {
        if ((i + k) % 4 == 0) {
          const std::unique_lock hold(m);
          c.expect(writers.fetch_add(1) == 0 && readers == 0, "a writer is not alone");
          ++written;
          if (k % 50 == 0) lagom::this_fiber::yield();
          writers.fetch_sub(1);
        } else {
          const std::shared_lock hold(m);
          together += readers.fetch_add(1) > 0;
          c.expect(writers == 0, "a reader beside a writer");
          if (k % 50 == 0) nap(10us);
          readers.fetch_sub(1);
        }
      }
    });
    c.finish();
    CHECK(written == 2 * rounds(1000));
    CHECK(together > 0);
    CHECK(m.try_lock());
    m.unlock();
  }
}

TEST_CASE("shared_mutex: try forms") {
  lagom::shared_mutex m;
  CHECK(m.try_lock_shared());
  CHECK(m.try_lock_shared());
  CHECK_FALSE(m.try_lock());
  m.unlock_shared();
  m.unlock_shared();
  CHECK(m.try_lock());
  CHECK_FALSE(m.try_lock());
  CHECK_FALSE(m.try_lock_shared());
  m.unlock();
}

TEST_CASE("shared_mutex: readers that keep coming do not shut out a writer") {
  for (const setting& s : settings) {
    lagom::shared_mutex m;
    std::atomic<bool> written{false};
    crowd c(s);
    c.start_many(4, [&](int) {
      // Two of them overlap nearly always.
      while (!written) {
        const std::shared_lock hold(m);
        nap(50us);
      }
    });
    c.start([&] {
      let_others_run();
      const std::unique_lock hold(m);
      written = true;
    });
    c.finish();
    CHECK(written);
  }
}

TEST_CASE("shared_mutex: a writer's end lets all readers in that wait together") {
  for (const setting& s : settings) {
    lagom::shared_mutex m;
    lagom::wait_group all_in(40);
    m.lock();
    crowd c(s);
    c.start_many(40, [&](int) {
      const std::shared_lock hold(m);
      all_in.done();
      all_in.wait();  // ends only if all are in at the same time
    });
    let_others_run();
    m.unlock();
    c.finish();
    CHECK(m.try_lock());
    m.unlock();
  }
}
