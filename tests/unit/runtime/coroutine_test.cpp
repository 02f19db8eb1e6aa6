// SPDX-License-Identifier: BSL-1.0
// C++20 coroutines and fibers: coroutines whose fiber waits in their middle, coroutines that await futures of fibers, and
// lagom::await, which is the way from a fiber into a coroutine.
#include <lagom/await.hpp>

#include <coroutine>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/fixture.hpp"

using namespace lagom::tests;

namespace {

// A lazy coroutine as in any coroutine library: begins when awaited, then resumes who awaits it.
template <class T>
class task {
 public:
  struct promise_type {
    std::coroutine_handle<> next = std::noop_coroutine();
    std::optional<T> value;
    std::exception_ptr failure;

    task get_return_object() { return task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept {
      struct go_on {
        bool await_ready() noexcept { return false; }
        std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> h) noexcept { return h.promise().next; }
        void await_resume() noexcept {}
      };
      return go_on{};
    }
    void return_value(T v) { value.emplace(std::move(v)); }
    void unhandled_exception() { failure = std::current_exception(); }
  };

  explicit task(std::coroutine_handle<promise_type> h) noexcept : handle_(h) {}
  task(task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  ~task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> next) noexcept {
    handle_.promise().next = next;
    return handle_;
  }
  T await_resume() {
    if (handle_.promise().failure) std::rethrow_exception(handle_.promise().failure);
    return std::move(*handle_.promise().value);
  }

 private:
  std::coroutine_handle<promise_type> handle_;
};

lagom::runtime_options moving() {
  lagom::runtime_options options;
  options.chaos_seed = 21;
  return options;
}

// Waits with its fiber, in the middle, at each level.
task<long> tree(int depth) {
  lagom::this_fiber::yield();
  if (depth == 0) co_return 1;
  const long left = co_await tree(depth - 1);
  lagom::this_fiber::sleep_for(1us);
  const long right = co_await tree(depth - 1);
  co_return left + right;
}

task<int> fails_after_a_wait(lagom::mutex& m, int number) {
  try {
    const std::lock_guard hold(m);
    lagom::this_fiber::yield();
    throw std::runtime_error(std::to_string(number));
  } catch (const std::runtime_error&) {
    lagom::this_fiber::sleep_for(std::chrono::microseconds(number % 7));
    throw;  // its own, though others threw meanwhile
  }
  co_return 0;
}

task<int> keeps_identity(lagom::mutex& m, int number) {
  try {
    co_return co_await fails_after_a_wait(m, number);
  } catch (const std::runtime_error& e) {
    lagom::this_fiber::yield();
    co_return std::stoi(e.what());
  }
}

}  // namespace

TEST_CASE("a fiber waits in the middle of coroutines, nested, while it moves between workers") {
  for_each_worker_count(
      [](lagom::runtime& rt) {
        verdict v;
        std::vector<lagom::fiber> fibers;
        for (int i = 0; i < 20; ++i) {
          fibers.push_back(rt.spawn([&] { v.expect(lagom::await(tree(5)) == 32, "a lost branch"); }));
        }
        for (lagom::fiber& f : fibers) f.join();
      },
      moving());
}

TEST_CASE("exceptions in coroutines belong to the fiber that runs them") {
  for_each_worker_count(
      [](lagom::runtime& rt) {
        verdict v;
        lagom::mutex m;
        std::vector<lagom::fiber> fibers;
        for (int i = 0; i < 30; ++i) {
          fibers.push_back(rt.spawn([&, i] {
            for (int turn = 0; turn < 20; ++turn) {
              v.expect(lagom::await(keeps_identity(m, i)) == i, "somebody else's exception");
              v.expect(std::uncaught_exceptions() == 0, "uncaught_exceptions");
            }
            try {
              lagom::await(fails_after_a_wait(m, i));
              v.expect(false, "no exception");
            } catch (const std::runtime_error& e) {
              v.expect(e.what() == std::to_string(i), "another exception");
            }
          }));
        }
        for (lagom::fiber& f : fibers) f.join();
      },
      moving());
}

namespace {

task<long> asks_fibers(long n) {
  long sum = 0;
  for (long i = 0; i < n; ++i) {
    sum += co_await lagom::async([i] {
      lagom::this_fiber::yield();
      return i;
    });
  }
  co_return sum;
}

// Goes on in the fiber that makes the result: none of this coroutine's own fiber may be needed.
task<std::string> meets(lagom::future<std::unique_ptr<int>>& a, lagom::future<void>& b) {
  std::unique_ptr<int> number = co_await a;
  co_await b;
  co_return std::to_string(*number);
}

}  // namespace

TEST_CASE("a coroutine awaits futures of fibers") {
  for_each_worker_count(
      [](lagom::runtime& rt) {
        verdict v;
        std::vector<lagom::fiber> fibers;
        for (int i = 0; i < 10; ++i) {
          fibers.push_back(rt.spawn([&] { v.expect(lagom::await(asks_fibers(50)) == 1225, "a wrong sum"); }));
        }
        for (lagom::fiber& f : fibers) f.join();

        lagom::promise<std::unique_ptr<int>> number;
        lagom::promise<void> nothing;
        auto a = number.get_future();
        auto b = nothing.get_future();
        lagom::fiber maker = rt.spawn([&] {
          lagom::this_fiber::sleep_for(1ms);
          number.set_value(std::make_unique<int>(42));
          lagom::this_fiber::sleep_for(1ms);
          nothing.set_value();
        });
        CHECK(lagom::await(meets(a, b)) == "42");  // a plain thread may wait too
        maker.join();
      },
      moving());
}

TEST_CASE("100,000 ready awaitables on a stack of 64 KiB") {
  lagom::runtime rt({.workers = 2});
  const long n = rounds(100'000);
  const auto all_ready = [](long count) -> task<long> {
    long sum = 0;
    for (long i = 0; i < count; ++i) {
      lagom::promise<int> p;
      p.set_value(1);
      lagom::future<int> f = p.get_future();
      sum += co_await f;
    }
    co_return sum;
  };
  long sum = 0;
  rt.spawn({.stack_size = 64 * 1024}, [&] { sum = lagom::await(all_ready(n)); }).join();
  CHECK(sum == n);
}

TEST_CASE("await takes anything that co_await takes, and hands back what it gives") {
  struct value_now {
    bool await_ready() const noexcept { return true; }
    void await_suspend(std::coroutine_handle<>) const noexcept {}
    std::unique_ptr<int> await_resume() const { return std::make_unique<int>(3); }
  };
  static int target = 0;
  struct reference_by_member {
    auto operator co_await() const {
      struct it : std::suspend_never {
        int& await_resume() const noexcept { return target; }
      };
      return it{};
    }
  };
  struct failing : std::suspend_never {
    void await_resume() const { throw std::runtime_error("on purpose"); }
  };
  CHECK(*lagom::await(value_now{}) == 3);
  CHECK(&lagom::await(reference_by_member{}) == &target);
  static_assert(std::is_same_v<decltype(lagom::await(std::suspend_never{})), void>);
  lagom::await(std::suspend_never{});
  CHECK_THROWS_AS(lagom::await(failing{}), std::runtime_error);
  lagom::promise<int> p;
  auto f = p.get_future();
  p.set_value(4);
  CHECK(lagom::await(f) == 4);
}
