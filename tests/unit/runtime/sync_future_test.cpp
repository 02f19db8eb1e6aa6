// SPDX-License-Identifier: BSL-1.0
#include <lagom/future.hpp>

#include <coroutine>
#include <memory>
#include <stdexcept>
#include <string>

#include "sync_crowd.hpp"

using namespace sync_test;

namespace {

std::future_errc code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::future_error& e) {
    return static_cast<std::future_errc>(e.code().value());
  }
  return {};
}

// A coroutine that nobody waits for.
struct detached_coroutine {
  struct promise_type {
    detached_coroutine get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

detached_coroutine add_up(std::vector<lagom::future<int>>& all, long& sum, lagom::event& done) {
  for (auto& f : all) sum += co_await f;
  done.set();
}

}  // namespace

static_assert(std::is_nothrow_move_constructible_v<lagom::future<int>> &&
              !std::is_copy_constructible_v<lagom::future<int>>);

TEST_CASE("future: a value goes from here to there") {
  for (const setting& s : settings) {
    lagom::promise<std::unique_ptr<int>> number;
    lagom::promise<std::string&> reference;
    lagom::promise<void> nothing;
    std::string text = "text";
    auto a = number.get_future();
    auto b = reference.get_future();
    auto d = nothing.get_future();
    crowd c(s);
    c.start([&] {
      c.expect(*a.get() == 7, "value");
      c.expect(!a.valid(), "valid after get");
      c.expect(&b.get() == &text, "reference");
      d.get();
    });
    c.start([&] {
      let_others_run();
      number.set_value(std::make_unique<int>(7));
      reference.set_value(text);
      nothing.set_value();
    });
    c.finish();
  }
}

TEST_CASE("future: an exception, and a promise that is broken") {
  for (const setting& s : settings) {
    auto failing = std::make_unique<lagom::promise<int>>();
    auto broken = std::make_unique<lagom::promise<int>>();
    auto a = failing->get_future();
    auto b = broken->get_future();
    crowd c(s);
    c.start([&] {
      try {
        (void)a.get();
        c.expect(false, "no exception");
      } catch (const std::runtime_error& e) {
        c.expect(e.what() == std::string("failed"), "another exception");
      }
      c.expect(code_of([&] { (void)b.get(); }) == std::future_errc::broken_promise, "not broken");
    });
    c.start([&] {
      let_others_run();
      failing->set_exception(std::make_exception_ptr(std::runtime_error("failed")));
      broken.reset();
    });
    c.finish();
  }
}

TEST_CASE("future: misuse") {
  lagom::promise<int> p;
  auto f = p.get_future();
  CHECK(code_of([&] { (void)p.get_future(); }) == std::future_errc::future_already_retrieved);
  p.set_value(1);
  CHECK(code_of([&] { p.set_value(2); }) == std::future_errc::promise_already_satisfied);
  CHECK(code_of([&] { p.set_exception({}); }) == std::future_errc::promise_already_satisfied);
  CHECK(f.get() == 1);
  CHECK(code_of([&] { (void)f.get(); }) == std::future_errc::no_state);
  CHECK(code_of([&] { f.wait(); }) == std::future_errc::no_state);
  CHECK(code_of([&] { f.on_ready([] {}); }) == std::future_errc::no_state);
  lagom::promise<int> moved = std::move(p);
  CHECK(code_of([&] { p.set_value(3); }) == std::future_errc::no_state);

  struct picky {
    explicit picky(int v) {
      if (v < 0) throw std::invalid_argument("negative");
    }
  };
  lagom::promise<picky> q;
  CHECK_THROWS_AS(q.set_value(-1), std::invalid_argument);
  q.set_value(1);  // there was no result yet
}

TEST_CASE("future: the time") {
  for (const setting& s : settings) {
    lagom::promise<int> p;
    auto f = p.get_future();
    crowd c(s);
    c.start([&] {
      const auto begin = clock::now();
      c.expect(f.wait_for(2ms) == std::future_status::timeout, "there is no result");
      c.expect(clock::now() - begin >= 2ms, "too early");
      c.expect(f.wait_until(begin) == std::future_status::timeout, "past");
      c.expect(f.wait_for(-1h) == std::future_status::timeout && !f.is_ready(), "negative");
      p.set_value(5);
      c.expect(f.wait_for(-1h) == std::future_status::ready && f.is_ready(), "ready");
    });
    c.finish();
  }
}

TEST_CASE("future: a stop request ends the wait, not the future") {
  lagom::runtime_options options;
  options.workers = 1;
  lagom::runtime rt(options);
  lagom::promise<int> p;
  auto f = p.get_future();
  std::atomic<int> thrown{0};
  lagom::fiber waiter = rt.spawn([&] {
    for (int i = 0; i < 2; ++i) {
      try {
        i == 0 ? (void)f.get() : (void)f.wait_for(1h);
      } catch (const std::system_error& e) {
        thrown += e.code() == lagom::errc::stopped;
      }
    }
  });
  std::this_thread::sleep_for(1ms);
  waiter.request_stop();
  waiter.join();
  CHECK(thrown == 2);
  p.set_value(3);
  CHECK(f.get() == 3);
}

TEST_CASE("future: on_ready, before and after, with and without the future") {
  lagom::promise<int> p;
  auto f = p.get_future();
  std::vector<int> order;
  f.on_ready([&] { order.push_back(1); });
  f.on_ready([&](lagom::future<int> mine) { order.push_back(mine.get()); });
  CHECK_FALSE(f.valid());
  CHECK(order.empty());
  p.set_value(2);
  CHECK(order == std::vector<int>{1, 2});

  lagom::promise<int> q;
  auto g = q.get_future();
  q.set_value(3);
  g.on_ready([&] { order.push_back(g.get()); });
  CHECK(order.back() == 3);

  {
    // The future is gone, the promise breaks: it is called all the same.
    lagom::promise<void> r;
    r.get_future().on_ready([&] { order.push_back(4); });
  }
  CHECK(order.back() == 4);
}

TEST_CASE("future: on_ready races with the result") {
  for (const setting& s : settings) {
    const int count = rounds(1000);
    std::vector<lagom::promise<int>> promises(static_cast<std::size_t>(count));
    std::vector<lagom::future<int>> futures;
    for (auto& p : promises) futures.push_back(p.get_future());
    std::atomic<int> called{0};
    crowd c(s);
    c.start([&] {
      for (auto& p : promises) p.set_value(1);
    });
    c.start([&] {
      for (auto& f : futures) f.on_ready([&](lagom::future<int> mine) { called += mine.get(); });
    });
    c.finish();
    CHECK(called == count);
  }
}

TEST_CASE("future: a coroutine awaits ready ones without using stack, and others") {
  for (const setting& s : settings) {
    const int count = rounds(20000);
    std::vector<lagom::promise<int>> promises(static_cast<std::size_t>(count));
    std::vector<lagom::future<int>> futures;
    for (auto& p : promises) futures.push_back(p.get_future());
    long sum = 0;
    lagom::event done;
    for (int i = 0; i < count / 2; ++i) promises[static_cast<std::size_t>(i)].set_value(1);
    crowd c(s);
    c.start([&] { add_up(futures, sum, done); });
    c.start([&] {
      for (int i = count / 2; i < count; ++i) promises[static_cast<std::size_t>(i)].set_value(1);
    });
    c.start([&] { done.wait(); });
    c.finish();
    CHECK(sum == count);
  }
}

TEST_CASE("packaged_task") {
  lagom::packaged_task<int(int, int)> add([](int a, int b) { return a + b; });
  auto sum = add.get_future();
  CHECK(add.valid());
  add(2, 3);
  CHECK(sum.get() == 5);
  CHECK(code_of([&] { add(1, 1); }) == std::future_errc::promise_already_satisfied);

  lagom::packaged_task<void()> failing([p = std::make_unique<int>(1)] { throw std::runtime_error("no"); });
  auto nothing = failing.get_future();
  failing();
  CHECK_THROWS_AS(nothing.get(), std::runtime_error);

  lagom::future<int> orphan;
  {
    lagom::packaged_task<int()> never_called([] { return 1; });
    orphan = never_called.get_future();
  }
  CHECK(code_of([&] { (void)orphan.get(); }) == std::future_errc::broken_promise);
  CHECK(code_of([] { lagom::packaged_task<void()>()(); }) == std::future_errc::no_state);
}

TEST_CASE("async: results, exceptions, arguments, stop tokens") {
  for (unsigned workers : {1u, 2u, 4u}) {
    lagom::runtime_options options;
    options.workers = workers;
    lagom::runtime rt(options);
    rt.run([] {
      auto product = lagom::async([](std::unique_ptr<int> a, int b) { return *a * b; }, std::make_unique<int>(6), 7);
      auto failing = lagom::async([]() -> int { throw std::runtime_error("no"); });
      auto with_token = lagom::async([](std::stop_token t, int v) { return t.stop_possible() ? v : -1; }, 4);
      lagom::attributes attrs;
      attrs.name = "named";
      auto named = lagom::async(attrs, [] { return lagom::this_fiber::get_attributes().name; });
      int target = 0;
      auto reference = lagom::async([&]() -> int& { return target; });
      CHECK(product.get() == 42);
      CHECK_THROWS_AS((void)failing.get(), std::runtime_error);
      CHECK(with_token.get() == 4);
      CHECK(named.get() == "named");
      CHECK(&reference.get() == &target);
      // The destructor does not wait.
      lagom::event go;
      std::atomic<bool> ended{false};
      {
        auto ignored = lagom::async([&] {
          go.wait();
          ended = true;
        });
      }
      CHECK_FALSE(ended.load());
      go.set();
      while (!ended) lagom::this_fiber::yield();
      std::vector<lagom::future<int>> many;
      for (int i = 0; i < 100; ++i) many.push_back(lagom::async([i] { return i; }));
      int sum = 0;
      for (auto& f : many) sum += f.get();
      CHECK(sum == 4950);
    });
  }
  CHECK_THROWS_AS((void)lagom::async([] {}), std::system_error);  // no runtime on a plain thread
}
