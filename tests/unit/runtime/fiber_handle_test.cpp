// SPDX-License-Identifier: BSL-1.0
// The handle: join, detach, exceptions, ids, the destructor.
#include <atomic>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <vector>

#include "support/fixture.hpp"

using namespace lagom::tests;

TEST_CASE("join waits for the end, from a fiber and from a thread") {
  for_each_worker_count([](lagom::runtime& rt) {
    bool ended = false;
    lagom::fiber f = rt.spawn([&] {
      lagom::this_fiber::sleep_for(2ms);
      ended = true;
    });
    CHECK(f.joinable());
    f.join();
    CHECK(ended);
    CHECK_FALSE(f.joinable());
    CHECK(error_of([&] { f.join(); }) == lagom::errc::not_joinable);
    CHECK(error_of([&] { f.detach(); }) == lagom::errc::not_joinable);

    rt.run([&] {
      ended = false;
      lagom::fiber inner = lagom::spawn([&] {
        lagom::this_fiber::yield();
        ended = true;
      });
      inner.join();
      CHECK(ended);
    });
    // One that has ended long ago.
    lagom::fiber quick = rt.spawn([] {});
    CHECK(rt.drain_for(limit(5s)));
    quick.join();
  });
}

TEST_CASE("join_for gives up after its time and can be called again") {
  for_each_worker_count([](lagom::runtime& rt) {
    lagom::event go;
    lagom::fiber f = rt.spawn([&] { go.wait(); });
    const auto begin = clock::now();
    CHECK_FALSE(f.join_for(5ms));
    CHECK(clock::now() - begin >= 5ms);
    CHECK_FALSE(f.join_for(0ms));
    CHECK_FALSE(f.join_for(-1ms));
    CHECK(f.joinable());
    rt.run([&] {
      const auto inside = clock::now();
      const bool joined = f.join_for(5ms);
      CHECK_FALSE(joined);
      CHECK(clock::now() - inside >= 5ms);
    });
    go.set();
    CHECK(f.join_for(limit(5s)));
    CHECK_FALSE(f.joinable());
  });
}

TEST_CASE("an exception comes out of join, once") {
  for_each_worker_count([](lagom::runtime& rt) {
    lagom::fiber f = rt.spawn([] { throw std::runtime_error("left"); });
    CHECK_THROWS_WITH_AS(f.join(), "left", std::runtime_error);
    CHECK_FALSE(f.joinable());
    CHECK(error_of([&] { f.join(); }) == lagom::errc::not_joinable);
    lagom::fiber g = rt.spawn([] { throw 3; });
    CHECK_THROWS_AS(g.join_for(limit(5s)), int);
    CHECK(rt.stats().uncaught == 0);
  });
}

TEST_CASE("an exception nobody joins goes to on_uncaught, once, with the attributes") {
  std::atomic<int> calls{0};
  std::string name, what;
  lagom::runtime_options options;
  options.on_uncaught = [&](const lagom::attributes& a, std::exception_ptr e) {
    ++calls;
    name = a.name;
    try {
      std::rethrow_exception(e);
    } catch (const std::runtime_error& left) {
      what = left.what();
    }
  };
  for_each_worker_count(
      [&](lagom::runtime& rt) {
        calls = 0;
        rt.spawn_detached({.name = "careless"}, [] { throw std::runtime_error("detached"); });
        CHECK(rt.drain_for(limit(5s)));
        CHECK(calls == 1);
        CHECK(name == "careless");
        CHECK(what == "detached");

        // Detached after it has thrown.
        lagom::fiber late = rt.spawn({.name = "late"}, [] { throw std::runtime_error("kept"); });
        CHECK(rt.drain_for(limit(5s)));
        CHECK(calls == 1);
        late.detach();
        CHECK(calls == 2);
        CHECK(what == "kept");

        // Met by the destructor.
        { lagom::fiber dropped = rt.spawn({.name = "dropped"}, [] { throw std::runtime_error("dropped"); }); }
        CHECK(calls == 3);
        CHECK(name == "dropped");

        // Others go on.
        CHECK(rt.run([] { return 1; }) == 1);
        CHECK(rt.stats().uncaught == 3);
      },
      options);
}

TEST_CASE("a handle may outlive its runtime") {
  lagom::fiber joined, dropped, detached, quiet;
  std::atomic<int> uncaught{0};
  {
    lagom::runtime_options options;
    options.workers = 2;
    options.on_uncaught = [&](const lagom::attributes&, std::exception_ptr) { ++uncaught; };
    lagom::runtime rt(options);
    joined = rt.spawn([] { throw std::runtime_error("kept"); });
    dropped = rt.spawn([] { throw 1; });
    detached = rt.spawn([] { throw 2; });
    quiet = rt.spawn({.name = "quiet"}, [] {});
  }
  CHECK(quiet.stats().state == lagom::fiber_state::exited);
  CHECK(quiet.get_attributes().name == "quiet");
  CHECK_FALSE(quiet.request_stop());
  quiet.join();
  CHECK_THROWS_WITH(joined.join(), "kept");
  detached.detach();
  dropped = lagom::fiber();
  CHECK(uncaught == 0);
}

TEST_CASE("the destructor requests a stop and joins") {
  for_each_worker_count([](lagom::runtime& rt) {
    bool stopped = false, ended = false;
    const auto wait_for_stop = [&] {
      try {
        lagom::this_fiber::sleep_for(1h);
      } catch (const std::system_error& e) {
        stopped = e.code() == lagom::errc::stopped;
      }
      ended = true;
    };
    { lagom::fiber f = rt.spawn(wait_for_stop); }
    CHECK(stopped);
    CHECK(ended);
    stopped = ended = false;
    rt.run([&] { lagom::fiber f = lagom::spawn(wait_for_stop); });
    CHECK(stopped);
    CHECK(ended);
    // So does an assignment, for the fiber that was there.
    stopped = ended = false;
    lagom::fiber f = rt.spawn(wait_for_stop);
    f = rt.spawn([] {});
    CHECK(ended);
    f.join();
  });
}

TEST_CASE("a handle is moved, never copied, and swapped") {
  static_assert(!std::is_copy_constructible_v<lagom::fiber> && !std::is_copy_assignable_v<lagom::fiber>);
  static_assert(std::is_nothrow_move_constructible_v<lagom::fiber> && std::is_nothrow_move_assignable_v<lagom::fiber>);
  static_assert(sizeof(lagom::fiber) == sizeof(void*));
  for_each_worker_count([](lagom::runtime& rt) {
    lagom::event go;
    lagom::fiber a = rt.spawn([&] { go.wait(); });
    const lagom::fiber::id id = a.get_id();
    lagom::fiber b = std::move(a);
    CHECK_FALSE(a.joinable());
    CHECK(a.get_id() == lagom::fiber::id());
    CHECK(b.get_id() == id);
    a.swap(b);
    CHECK(a.get_id() == id);
    CHECK_FALSE(b.joinable());
    go.set();
    a.join();
    CHECK_FALSE(lagom::fiber().joinable());
    CHECK_FALSE(lagom::fiber().request_stop());
    CHECK_FALSE(lagom::fiber().get_stop_token().stop_possible());
  });
}

TEST_CASE("ids are unique, ordered, hashable and printable") {
  for_each_worker_count([](lagom::runtime& rt) {
    std::set<lagom::fiber::id> ordered;
    std::unordered_set<lagom::fiber::id> hashed;
    const long n = rounds(3000);
    for (long i = 0; i < n; ++i) {
      lagom::fiber f = rt.spawn([] {});
      ordered.insert(f.get_id());
      hashed.insert(f.get_id());
      f.join();
    }
    rt.run([&] {
      for (long i = 0; i < n; ++i) {
        lagom::fiber f = lagom::spawn([] {});
        ordered.insert(f.get_id());
        hashed.insert(f.get_id());
        f.join();
      }
    });
    CHECK(ordered.size() == static_cast<std::size_t>(2 * n));
    CHECK(hashed.size() == ordered.size());
    CHECK(ordered.count(lagom::fiber::id()) == 0);

    lagom::fiber::id own;
    lagom::fiber f = rt.spawn([&] { own = lagom::this_fiber::get_id(); });
    const lagom::fiber::id seen = f.get_id();
    f.join();
    CHECK(own == seen);
    std::ostringstream text;
    text << own;
    CHECK(text.str() == std::to_string(own.value()));
  });
}

TEST_CASE("a detached fiber runs to its end") {
  for_each_worker_count([](lagom::runtime& rt) {
    std::atomic<int> ended{0};
    rt.run([&] {
      lagom::spawn_detached([&] { ++ended; });
      lagom::spawn_detached({.name = "named"}, [&] { ++ended; });
      lagom::fiber f = lagom::spawn([&] {
        lagom::this_fiber::sleep_for(1ms);
        ++ended;
      });
      f.detach();
      CHECK_FALSE(f.joinable());
    });
    CHECK(rt.drain_for(limit(5s)));
    CHECK(ended == 3);
  });
}

TEST_CASE("a fiber that joins itself is told") {
  for_each_worker_count([](lagom::runtime& rt) {
    lagom::event ready;
    lagom::fiber f;
    std::error_code seen;
    f = rt.spawn([&] {
      ready.wait();
      seen = error_of([&] { f.join(); });
    });
    ready.set();
    while (!rt.drain_for(limit(5s))) FAIL_CHECK("waits for itself");
    CHECK(seen == lagom::errc::would_deadlock);
    f.join();
  });
}

TEST_CASE("attributes are read back as they were given, nice clamped") {
  for_each_worker_count([](lagom::runtime& rt) {
    lagom::attributes a;
    a.name = "worker bee";
    a.policy = lagom::policy::batch;
    a.nice = 100;
    a.slice = 700us;
    a.stack_size = 64 * 1024;
    a.pinned = true;
    lagom::event go;
    lagom::attributes inside;
    lagom::fiber f = rt.spawn(a, [&] {
      inside = lagom::this_fiber::get_attributes();
      go.wait();
    });
    for (const lagom::attributes& got : {f.get_attributes(), (go.set(), f.join_for(limit(5s)), inside)}) {
      CHECK(got.name == "worker bee");
      CHECK(got.policy == lagom::policy::batch);
      CHECK(got.nice == 19);
      CHECK(got.slice == 700us);
      CHECK(got.stack_size == 64 * 1024);
      CHECK(got.pinned);
      CHECK_FALSE(got.util_min.has_value());
    }
    CHECK_FALSE(f.joinable());
    CHECK(error_of([&] { (void)f.get_attributes(); }) == lagom::errc::not_joinable);
    CHECK(error_of([&] { (void)f.stats(); }) == lagom::errc::not_joinable);
    const lagom::attributes plain = rt.run([] { return lagom::this_fiber::get_attributes(); });
    CHECK(plain.name.empty());
    CHECK(plain.nice == 0);
    CHECK(plain.slice == 0ns);
  });
}

TEST_CASE("many at once: each is joined with its own result") {
  for_each_worker_count([](lagom::runtime& rt) {
    const long n = rounds(5000);
    std::vector<long> results(static_cast<std::size_t>(n));
    std::vector<lagom::fiber> fibers;
    for (long i = 0; i < n; ++i) {
      fibers.push_back(rt.spawn([&results, i] {
        if (i % 3 == 0) lagom::this_fiber::yield();
        if (i % 5 == 0) lagom::this_fiber::sleep_for(10us);
        if (i % 7 == 0) throw i;
        results[static_cast<std::size_t>(i)] = i;
      }));
    }
    long thrown = 0, sum = 0;
    for (long i = 0; i < n; ++i) {
      try {
        fibers[static_cast<std::size_t>(i)].join();
      } catch (const long left) {
        CHECK(left == i);
        thrown += left;
      }
      sum += results[static_cast<std::size_t>(i)];
    }
    CHECK(sum + thrown == n * (n - 1) / 2);
  });
}
