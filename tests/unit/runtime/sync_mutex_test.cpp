// SPDX-License-Identifier: BSL-1.0
#include <lagom/mutex.hpp>

#include <mutex>
#include <type_traits>

#include "sync_crowd.hpp"

using namespace sync_test;

namespace {

template <class M>
concept lockable = requires(M& m) {
  { m.lock() } -> std::same_as<void>;
  { m.try_lock() } -> std::same_as<bool>;
  { m.unlock() } -> std::same_as<void>;
};
template <class M>
concept timed_lockable = lockable<M> && requires(M& m) {
  { m.try_lock_for(1ms) } -> std::same_as<bool>;
  { m.try_lock_until(clock::now()) } -> std::same_as<bool>;
};
static_assert(lockable<lagom::mutex> && !timed_lockable<lagom::mutex> && timed_lockable<lagom::timed_mutex>);
static_assert(!std::is_copy_constructible_v<lagom::mutex> && !std::is_move_constructible_v<lagom::mutex>);
static_assert(std::is_nothrow_default_constructible_v<lagom::mutex>);
constinit lagom::mutex constant_initialised;

}  // namespace

TEST_CASE("mutex: one owner at a time") {
  for (const setting& s : settings) {
    lagom::mutex m;
    long counter = 0;  // not atomic on purpose
    std::atomic<int> inside{0};
    crowd c(s);
    c.start_many(8, [&](int) {
      for (int i = 0; i < 2000; ++i) {
        const std::lock_guard hold(m);
        c.expect(inside.fetch_add(1) == 0, "two owners");
        ++counter;
        if (i % 100 == 0) lagom::this_fiber::yield();  // also across a switch
        inside.fetch_sub(1);
      }
    });
    c.finish();
    CHECK(counter == 16000);
  }
}

TEST_CASE("mutex: try_lock") {
  lagom::mutex& m = constant_initialised;
  CHECK(m.try_lock());
  CHECK_FALSE(m.try_lock());
  std::thread([&] { CHECK_FALSE(m.try_lock()); }).join();
  m.unlock();
  std::unique_lock lock(m, std::try_to_lock);
  CHECK(lock.owns_lock());
}

TEST_CASE("mutex: two at once by std::scoped_lock, in both orders") {
  for (const setting& s : settings) {
    lagom::mutex a, b;
    long counter = 0;
    crowd c(s);
    c.start_many(4, [&](int i) {
      for (int k = 0; k < 500; ++k) {
        if (i % 2) {
          const std::scoped_lock hold(a, b);
          ++counter;
        } else {
          const std::scoped_lock hold(b, a);
          ++counter;
        }
      }
    });
    c.finish();
    CHECK(counter == 2000);
  }
}

TEST_CASE("mutex: who locks again at once does not shut out the others") {
  for (const setting& s : settings) {
    lagom::mutex m;
    std::atomic<bool> done{false};
    std::atomic<long> greedy{0};
    int patient = 0;
    crowd c(s);
    c.start([&] {
      while (!done) {
        const std::lock_guard hold(m);
        ++greedy;
        nap(20us);  // holds it nearly all the time
      }
    });
    c.start([&] {
      for (int i = 0; i < 50; ++i) {
        nap(20us);
        const long before = greedy;
        const std::lock_guard hold(m);
        // The section under way, one that passes us over, one that began between our look and our queueing. The machine
        // may have stopped us in between: most rounds must keep to it, not all.
        patient += greedy - before > 3;
      }
      done = true;
    });
    c.finish();
    CHECK(patient < 25);
  }
}

TEST_CASE("mutex: every one of many waiters gets it") {
  for (const setting& s : settings) {
    lagom::mutex m;
    std::vector<int> turns(32);
    crowd c(s);
    c.start_many(32, [&](int i) {
      for (int k = 0; k < 20; ++k) {
        const std::lock_guard hold(m);
        ++turns[static_cast<std::size_t>(i)];
        lagom::this_fiber::yield();
      }
    });
    c.finish();
    for (int n : turns) CHECK(n == 20);
  }
}

TEST_CASE("mutex: lock is not ended by a stop request") {
  for (unsigned workers : {1u, 2u}) {
    lagom::runtime_options options;
    options.workers = workers;
    lagom::runtime rt(options);
    lagom::mutex m;
    m.lock();
    std::atomic<bool> owned{false};
    lagom::fiber f = rt.spawn([&] {
      m.lock();
      owned = true;
      m.unlock();
    });
    std::this_thread::sleep_for(2ms);
    f.request_stop();
    std::this_thread::sleep_for(2ms);
    CHECK_FALSE(owned.load());
    m.unlock();
    f.join();
    CHECK(owned.load());
  }
}

TEST_CASE("timed_mutex: gives up, and not before its time") {
  for (const setting& s : settings) {
    lagom::timed_mutex m;
    lagom::event held, tried;
    crowd c(s);
    c.start([&] {
      m.lock();
      held.set();
      tried.wait();
      m.unlock();
    });
    c.start([&] {
      held.wait();
      const auto begin = clock::now();
      c.expect(!m.try_lock_for(3ms), "locked what is held");
      c.expect(clock::now() - begin >= 3ms, "gave up early");
      c.expect(!m.try_lock_until(begin), "locked what is held, past time");
      c.expect(!m.try_lock_for(0s) && !m.try_lock_for(-1h) && !m.try_lock_for(std::chrono::hours::min()), "zero");
      tried.set();
      c.expect(m.try_lock_for(std::chrono::hours::max()), "for ever");
      m.unlock();
      c.expect(m.try_lock_for(-1s), "free: the time does not matter");
      m.unlock();
    });
    c.finish();
  }
}

TEST_CASE("timed_mutex: who gives up passes the wake-up on") {
  for (const setting& s : settings) {
    lagom::timed_mutex m;
    long counter = 0, locked = 0;
    std::atomic<long> given_up{0};
    crowd c(s);
    c.start_many(8, [&](int i) {
      for (int k = 0; k < rounds(500); ++k) {
        if (i < 6 && !m.try_lock_for(std::chrono::microseconds(k % 50))) {
          ++given_up;
          continue;
        }
        if (i >= 6) m.lock();
        ++counter;
        if (k % 8 == 0) nap(10us);
        ++locked;
        m.unlock();
      }
    });
    c.finish();
    CHECK(counter == locked);
    CHECK(counter + given_up == 8 * rounds(500));
  }
}

TEST_CASE("recursive_mutex: again by its owner, not by others") {
  for (const setting& s : settings) {
    lagom::recursive_mutex m;
    long counter = 0;
    crowd c(s);
    c.start_many(6, [&](int) {
      for (int k = 0; k < rounds(500); ++k) {
        const std::lock_guard first(m);
        const long before = counter;
        {
          const std::lock_guard second(m);
          c.expect(m.try_lock(), "owner refused");
          lagom::this_fiber::yield();  // the owner may come back on another worker
          ++counter;
          m.unlock();
        }
        if (k % 20 == 0) nap(10us);
        c.expect(counter == before + 1, "somebody else was in");
      }
    });
    c.finish();
    CHECK(counter == 6 * rounds(500));
  }
}

TEST_CASE("recursive_mutex: try_lock by another") {
  lagom::recursive_mutex m;
  m.lock();
  CHECK(m.try_lock());
  m.unlock();
  std::thread([&] { CHECK_FALSE(m.try_lock()); }).join();
  m.unlock();
  std::thread([&] {
    CHECK(m.try_lock());
    m.unlock();
  }).join();
}
