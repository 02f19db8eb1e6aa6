// SPDX-License-Identifier: BSL-1.0
#include <lagom/shared_mutex.hpp>

#include <mutex>
#include <shared_mutex>

#include "sync_crowd.hpp"

using namespace sync_test;

TEST_CASE("shared_mutex: readers together, a writer alone") {
  for (const setting& s : settings) {
    lagom::shared_mutex m;
    std::atomic<int> readers{0}, writers{0};
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
          readers.fetch_add(1);
          c.expect(writers == 0, "a reader beside a writer");
          if (k % 50 == 0) nap(10us);
          readers.fetch_sub(1);
        }
      }
    });
    c.finish();
    CHECK(written == 2 * rounds(1000));
    CHECK(m.try_lock());
    m.unlock();
    CHECK(m.try_lock_shared());  // whether readers of the crowd met is a matter of luck
    CHECK(m.try_lock_shared());
    CHECK_FALSE(m.try_lock());
    m.unlock_shared();
    m.unlock_shared();
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

TEST_CASE("shared_timed_mutex: the time, and nothing taken by who gives up") {
  for (const setting& s : settings) {
    lagom::shared_timed_mutex m;
    m.lock();
    crowd c(s);
    c.start([&] {
      const auto begin = clock::now();
      c.expect(!m.try_lock_for(2ms) && clock::now() - begin >= 2ms, "a writer beside a writer, or too early");
      c.expect(!m.try_lock_shared_until(begin + 4ms) && clock::now() - begin >= 4ms, "a reader beside a writer, or too early");
      c.expect(!m.try_lock_for(-1h) && !m.try_lock_shared_for(0s), "no time");
      m.unlock();
      c.expect(m.try_lock_for(0s), "free, and no time needed");
      m.unlock();
      c.expect(m.try_lock_shared_for(1h) && m.try_lock_shared_until(begin), "readers together");
      m.unlock_shared();
      m.unlock_shared();
    });
    c.finish();
    CHECK(m.try_lock());
    m.unlock();
  }
}

TEST_CASE("shared_timed_mutex: a writer that gives up lets the readers behind it in") {
  for (const setting& s : settings) {
    lagom::shared_timed_mutex m;
    std::atomic<bool> is_in{false}, gave_up{false};
    m.lock_shared();
    crowd c(s);
    c.start([&] { gave_up = !m.try_lock_for(20ms); });
    c.start([&] {
      let_others_run();
      m.lock_shared();  // behind the writer, if that has come by now; either way it must get in
      is_in = true;
      m.unlock_shared();
    });
    c.finish();
    m.unlock_shared();
    CHECK(gave_up);
    CHECK(is_in);
  }
}

TEST_CASE("shared_timed_mutex: giving up races with being let in") {
  for (const setting& s : settings) {
    lagom::shared_timed_mutex m;
    std::atomic<int> inside_shared{0}, inside_alone{0};
    crowd c(s);
    c.start_many(6, [&](int i) {
      for (int k = 0; k < rounds(400); ++k) {
        if ((i + k) % 2 == 0) {
          if (!m.try_lock_for(std::chrono::microseconds(k % 40))) continue;
          c.expect(inside_alone.fetch_add(1) == 0 && inside_shared == 0, "a writer is not alone");
          if (k % 20 == 0) nap(20us);
          inside_alone.fetch_sub(1);
          m.unlock();
        } else {
          if (!m.try_lock_shared_for(std::chrono::microseconds(k % 40))) continue;
          inside_shared.fetch_add(1);
          c.expect(inside_alone == 0, "a reader beside a writer");
          if (k % 20 == 0) nap(20us);
          inside_shared.fetch_sub(1);
          m.unlock_shared();
        }
      }
    });
    c.finish();
    CHECK(m.try_lock());
    m.unlock();
  }
}
