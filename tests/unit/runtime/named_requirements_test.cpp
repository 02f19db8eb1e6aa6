// SPDX-License-Identifier: BSL-1.0
// The standard's named requirements, asked of every type at compile time through the umbrella header; and its own class
// templates (unique_lock, shared_lock, scoped_lock, jthread's habits) used with ours.
#include <lagom/lagom.hpp>

#include <condition_variable>
#include <shared_mutex>

#include "support/fixture.hpp"

using namespace lagom::tests;

namespace {

template <class M>
concept basic_lockable = requires(M& m) {
  { m.lock() } -> std::same_as<void>;
  { m.unlock() } -> std::same_as<void>;
} && noexcept(std::declval<M&>().unlock());
template <class M>
concept lockable = basic_lockable<M> && requires(M& m) {
  { m.try_lock() } -> std::same_as<bool>;
};
template <class M>
concept timed_lockable = lockable<M> && requires(M& m) {
  { m.try_lock_for(1ms) } -> std::same_as<bool>;
  { m.try_lock_for(std::chrono::duration<double>(1)) } -> std::same_as<bool>;
  { m.try_lock_until(clock::now()) } -> std::same_as<bool>;
  { m.try_lock_until(std::chrono::system_clock::now()) } -> std::same_as<bool>;
};
template <class M>
concept shared_lockable = requires(M& m) {
  { m.lock_shared() } -> std::same_as<void>;
  { m.try_lock_shared() } -> std::same_as<bool>;
  { m.unlock_shared() } -> std::same_as<void>;
} && noexcept(std::declval<M&>().unlock_shared());
template <class M>
concept shared_timed_lockable = shared_lockable<M> && requires(M& m) {
  { m.try_lock_shared_for(1ms) } -> std::same_as<bool>;
  { m.try_lock_shared_until(clock::now()) } -> std::same_as<bool>;
};
// Mutex: lockable, default-constructible, destructible, neither copied nor moved.
template <class M>
concept a_mutex = lockable<M> && std::default_initializable<M> && !std::copy_constructible<M> && !std::move_constructible<M> &&
                  !std::is_copy_assignable_v<M>;

static_assert(a_mutex<lagom::mutex> && !timed_lockable<lagom::mutex> && !shared_lockable<lagom::mutex>);
static_assert(a_mutex<lagom::timed_mutex> && timed_lockable<lagom::timed_mutex>);
static_assert(a_mutex<lagom::recursive_mutex>);
static_assert(a_mutex<lagom::shared_mutex> && shared_lockable<lagom::shared_mutex> && !shared_timed_lockable<lagom::shared_mutex>);
static_assert(a_mutex<lagom::shared_timed_mutex> && timed_lockable<lagom::shared_timed_mutex> &&
              shared_timed_lockable<lagom::shared_timed_mutex>);

// std::mutex may be constant-initialised; so may these.
constinit lagom::mutex static_mutex;
constinit lagom::timed_mutex static_timed_mutex;
constinit lagom::recursive_mutex static_recursive_mutex;
constinit lagom::shared_mutex static_shared_mutex;
[[maybe_unused]] constinit lagom::condition_variable static_condition;
[[maybe_unused]] constinit lagom::once_flag static_flag;
[[maybe_unused]] constinit lagom::binary_semaphore static_semaphore(1);
[[maybe_unused]] constinit lagom::latch static_latch(1);

template <class T>
constexpr bool stays_where_it_is = !std::is_copy_constructible_v<T> && !std::is_move_constructible_v<T>;
static_assert(stays_where_it_is<lagom::condition_variable> && stays_where_it_is<lagom::once_flag> && stays_where_it_is<lagom::latch> &&
              stays_where_it_is<lagom::barrier<>> && stays_where_it_is<lagom::event> && stays_where_it_is<lagom::wait_group> &&
              stays_where_it_is<lagom::scope> && stays_where_it_is<lagom::runtime> && stays_where_it_is<lagom::counting_semaphore<>>);

template <class T>
constexpr bool moves_only = std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T> &&
                            !std::is_copy_constructible_v<T> && std::is_nothrow_default_constructible_v<T>;
static_assert(moves_only<lagom::fiber> && moves_only<lagom::future<int>> && moves_only<lagom::packaged_task<int()>>);
static_assert(std::is_nothrow_move_constructible_v<lagom::promise<int>> && !std::is_copy_constructible_v<lagom::promise<int>>);

// As std::thread::id: regular, ordered, hashed, printed.
static_assert(std::regular<lagom::fiber::id> && std::three_way_comparable<lagom::fiber::id, std::strong_ordering>);
static_assert(std::is_trivially_copyable_v<lagom::fiber::id>);
static_assert(std::is_error_code_enum_v<lagom::errc>);

}  // namespace

TEST_CASE("the standard's guards take our mutexes, several kinds at once") {
  const auto with_all = [] {
    const std::scoped_lock all(static_mutex, static_timed_mutex, static_recursive_mutex, static_shared_mutex);
    CHECK_FALSE(static_mutex.try_lock());
    const bool twice = static_timed_mutex.try_lock_for(1us);
    CHECK_FALSE(twice);
    CHECK(static_recursive_mutex.try_lock());
    static_recursive_mutex.unlock();
    CHECK_FALSE(static_shared_mutex.try_lock_shared());
  };
  with_all();
  for_each_worker_count([&](lagom::runtime& rt) { rt.run(with_all); });
  lagom::shared_timed_mutex m;
  std::unique_lock alone(m, 1ms);
  CHECK(alone.owns_lock());
  alone.unlock();
  const std::shared_lock with_others(m, clock::now() + 1ms);
  CHECK(with_others.owns_lock());
}

TEST_CASE("std::condition_variable_any works with our mutex on plain threads") {
  std::condition_variable_any changed;
  bool ready = false;
  std::thread other([&] {
    const std::lock_guard hold(static_mutex);
    ready = true;
    changed.notify_one();
  });
  std::unique_lock hold(static_mutex);
  changed.wait(hold, [&] { return ready; });
  hold.unlock();
  other.join();
  CHECK(ready);
}

TEST_CASE("runtime::async: from plain threads, with attributes and stop tokens; refused after a stop") {
  for_each_worker_count([](lagom::runtime& rt) {
    auto product = rt.async([](std::unique_ptr<int> a, int b) { return *a * b; }, std::make_unique<int>(6), 7);
    auto named = rt.async({.name = "named"}, [] { return lagom::this_fiber::get_attributes().name; });
    auto failing = rt.async([]() -> int { throw std::runtime_error("no"); });
    auto with_token = rt.async([](std::stop_token t, int v) { return t.stop_possible() ? v : -1; }, 4);
    CHECK(product.get() == 42);
    CHECK(named.get() == "named");
    CHECK_THROWS_AS((void)failing.get(), std::runtime_error);
    CHECK(with_token.get() == 4);
    const int inside = rt.run([&] { return rt.async([] { return 5; }).get(); });
    CHECK(inside == 5);
    rt.request_stop();
    CHECK(error_of([&] { (void)rt.async([] {}); }) == lagom::errc::stopped);
  });
}
