// SPDX-License-Identifier: BSL-1.0
#include <lagom/condition_variable.hpp>

#include <stop_token>

#include "sync_crowd.hpp"

using namespace sync_test;

TEST_CASE("condition_variable: notify_one wakes exactly one") {
  for (const setting& s : settings) {
    lagom::mutex m;
    lagom::condition_variable cv;
    int waiting = 0, woken = 0;
    crowd c(s);
    c.start_many(8, [&](int) {
      std::unique_lock lock(m);
      ++waiting;
      cv.wait(lock);
      ++woken;
    });
    c.start([&] {
      for (;;) {
        const std::lock_guard hold(m);
        if (waiting == 8) break;
        lagom::this_fiber::yield();
      }
      for (int i = 1; i <= 8; ++i) {
        {
          const std::lock_guard hold(m);
          cv.notify_one();
        }
        for (bool seen = false; !seen;) {
          lagom::this_fiber::yield();
          const std::lock_guard hold(m);
          c.expect(woken <= i, "one notification, two woken");
          seen = woken == i;
        }
      }
      cv.notify_one();  // nobody waits: nothing
    });
    c.finish();
    CHECK(woken == 8);
  }
}

TEST_CASE("condition_variable: notify_all wakes all, also more than a batch") {
  for (const setting& s : settings) {
    lagom::mutex m;
    lagom::condition_variable cv;
    bool go = false;
    int waiting = 0, through = 0;
    crowd c(s);
    c.start_many(70, [&](int) {
      std::unique_lock lock(m);
      ++waiting;
      cv.wait(lock, [&] { return go; });
      ++through;
    });
    c.start([&] {
      for (bool all = false; !all;) {
        lagom::this_fiber::yield();
        const std::lock_guard hold(m);
        all = waiting == 70;
      }
      {
        const std::lock_guard hold(m);
        go = true;
      }
      cv.notify_all();
    });
    c.finish();
    CHECK(through == 70);
  }
}

TEST_CASE("condition_variable: the time") {
  for (const setting& s : settings) {
    lagom::mutex m;
    lagom::condition_variable cv;
    crowd c(s);
    c.start_many(2, [&](int) {
      std::unique_lock lock(m);
      const auto begin = clock::now();
      c.expect(cv.wait_for(lock, 2ms) == std::cv_status::timeout, "nobody notifies");
      c.expect(clock::now() - begin >= 2ms, "too early");
      c.expect(lock.owns_lock(), "lock not taken again");
      c.expect(cv.wait_until(lock, begin) == std::cv_status::timeout, "past");
      c.expect(cv.wait_for(lock, 0s) == std::cv_status::timeout, "zero");
      c.expect(cv.wait_for(lock, -1h) == std::cv_status::timeout, "negative");
      c.expect(cv.wait_until(lock, clock::time_point::min()) == std::cv_status::timeout, "min");
      c.expect(cv.wait_until(lock, std::chrono::system_clock::now() - 1h) == std::cv_status::timeout,
               "past, wall clock");
      c.expect(!cv.wait_for(lock, 1ms, [] { return false; }), "predicate");
      c.expect(cv.wait_for(lock, -1ms, [] { return true; }), "true predicate does not wait");
    });
    c.finish();
  }
}

TEST_CASE("condition_variable: a zero wait lets others have the mutex") {
  for (const setting& s : settings) {
    lagom::mutex m;
    lagom::condition_variable cv;
    bool done = false;
    crowd c(s);
    c.start([&] {
      std::unique_lock lock(m);
      while (!done) {
        cv.wait_for(lock, 0ns);
        lagom::this_fiber::yield();
      }
    });
    c.start([&] {
      const std::lock_guard hold(m);
      done = true;
    });
    c.finish();
    CHECK(done);
  }
}

TEST_CASE("condition_variable: the longest times can be notified") {
  for (const setting& s : settings) {
    lagom::mutex m;
    lagom::condition_variable cv;
    int ready = 0;
    bool go = false;
    crowd c(s);
    auto is_go = [&] { return go; };
    c.start([&] {
      std::unique_lock lock(m);
      ++ready;
      c.expect(cv.wait_for(lock, std::chrono::nanoseconds::max(), is_go), "nanoseconds::max");
    });
    c.start([&] {
      std::unique_lock lock(m);
      ++ready;
      c.expect(cv.wait_for(lock, std::chrono::hours::max(), is_go), "hours::max");
    });
    c.start([&] {
      std::unique_lock lock(m);
      ++ready;
      c.expect(cv.wait_until(lock, clock::time_point::max(), is_go), "time_point::max");
    });
    c.start([&] {
      for (bool all = false; !all;) {
        nap(100us);
        const std::lock_guard hold(m);
        all = ready == 3;
      }
      let_others_run();
      const std::lock_guard hold(m);
      go = true;
      cv.notify_all();
    });
    c.finish();
  }
}

TEST_CASE("condition_variable: waiting without the lock is refused") {
  lagom::mutex m;
  lagom::condition_variable cv;
  std::unique_lock lock(m, std::defer_lock);
  CHECK_THROWS_AS(cv.wait(lock), std::system_error);
  CHECK_THROWS_AS(cv.wait_for(lock, 1ms), std::system_error);
}

TEST_CASE("condition_variable: a stop token ends the wait") {
  for (const setting& s : settings) {
    lagom::mutex m;
    lagom::condition_variable cv;
    std::stop_source before, later;
    before.request_stop();
    bool yes = true;
    crowd c(s);
    c.start([&] {
      std::unique_lock lock(m);
      c.expect(!cv.wait(lock, before.get_token(), [] { return false; }), "stopped before");
      c.expect(cv.wait(lock, before.get_token(), [&] { return yes; }), "true all the same");
      c.expect(!cv.wait_for(lock, std::stop_token{}, 1ms, [] { return false; }), "empty token: the time counts");
      c.expect(!cv.wait(lock, later.get_token(), [] { return false; }), "stopped later");
      c.expect(!cv.wait_until(lock, later.get_token(), clock::now() + 1h, [] { return false; }), "with time");
      c.expect(lock.owns_lock(), "lock not taken again");
    });
    c.start([&] {
      let_others_run();
      later.request_stop();
    });
    c.finish();
  }
}

TEST_CASE("condition_variable: what a stop of the fiber does") {
  for (unsigned workers : {1u, 2u}) {
    lagom::runtime_options options;
    options.workers = workers;
    lagom::runtime rt(options);
    lagom::mutex m;
    lagom::condition_variable cv;
    std::atomic<int> waiting{0}, thrown{0}, returned{0}, wrong{0};
    auto never_true = [] { return false; };
    auto body = [&](auto wait, bool throws) {
      return [&, wait, throws] {
        std::unique_lock lock(m);
        ++waiting;
        try {
          wait(lock);
          ++(throws ? wrong : returned);
        } catch (const std::system_error& e) {
          if (!throws || e.code() != lagom::errc::stopped) ++wrong;
          ++thrown;
        }
        if (!lock.owns_lock()) ++wrong;
      };
    };
    std::vector<lagom::fiber> fibers;
    fibers.push_back(rt.spawn(body([&](auto& l) { cv.wait(l); }, true)));
    fibers.push_back(rt.spawn(body([&](auto& l) { cv.wait(l, never_true); }, true)));
    fibers.push_back(rt.spawn(body([&](auto& l) { (void)cv.wait_for(l, 1h); }, true)));
    fibers.push_back(rt.spawn(body(
        [&](auto& l) {
          if (cv.wait_for(l, 1h, never_true)) ++wrong;
        },
        false)));
    fibers.push_back(rt.spawn(body(
        [&](auto& l) {
          if (cv.wait(l, std::stop_token{}, never_true)) ++wrong;
        },
        false)));
    while (waiting != 5) std::this_thread::yield();
    for (lagom::fiber& f : fibers) f.request_stop();
    for (lagom::fiber& f : fibers) f.join();
    CHECK(thrown == 3);
    CHECK(returned == 2);
    CHECK(wrong == 0);
  }
}

TEST_CASE("condition_variable: a notification is never lost to a waiter whose time ends") {
  for (const setting& s : settings) {
    lagom::mutex m;
    lagom::condition_variable cv;
    int tokens = 0, taken = 0;
    const int wanted = rounds(2000);
    crowd c(s);
    c.start_many(6, [&](int i) {
      std::unique_lock lock(m);
      while (taken < wanted) {
        if (tokens > 0) {
          --tokens;
          ++taken;
          continue;
        }
        // One in six waits without a limit: it relies on no notification being lost.
        if (i == 0) {
          cv.wait(lock);
        } else {
          cv.wait_for(lock, std::chrono::microseconds(taken % 30));
        }
      }
      cv.notify_all();
    });
    c.start([&] {
      for (int i = 0; i < wanted; ++i) {
        {
          const std::lock_guard hold(m);
          ++tokens;
        }
        cv.notify_one();
        if (i % 4 == 0) nap(std::chrono::microseconds(i % 40));
      }
    });
    c.finish();
    CHECK(taken == wanted);
  }
}
