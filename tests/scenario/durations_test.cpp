// SPDX-License-Identifier: BSL-1.0
// Durations and points in time at the ends of their range: long ones wait and can be cancelled, past ones return at once,
// and other timers stay right.
#include <sys/socket.h>
#include <unistd.h>

#include <mutex>
#include <ratio>

#include "scenario.hpp"

using namespace lagom::tests;

namespace {

using picoseconds = std::chrono::duration<std::int64_t, std::pico>;
using ns = std::chrono::nanoseconds;

// All that can wait for a duration or until a point in time. Each call returns when it is over or the fiber is stopped.
struct everything {
  lagom::mutex m;
  lagom::timed_mutex held;
  lagom::condition_variable cv;
  lagom::event never_set;
  lagom::binary_semaphore no_permit{0};
  lagom::wait_group unfinished{1};
  lagom::channel<int> empty{1}, full{1};
  int sockets[2] = {-1, -1};

  everything() {
    held.lock();
    full.send(1);
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets) == 0);
  }
  everything(const everything&) = delete;
  everything& operator=(const everything&) = delete;
  ~everything() {
    held.unlock();
    for (const int s : sockets) ::close(s);
  }

  static constexpr int kinds = 8;
  template <class D>
  void wait_for(int kind, const D& d) {
    std::unique_lock lock(m, std::defer_lock);
    int item = 0;
    switch (kind) {
      case 0: lagom::this_fiber::sleep_for(d); break;
      case 1:
        lock.lock();
        (void)cv.wait_for(lock, d);
        break;
      case 2: (void)never_set.wait_for(d); break;
      case 3: (void)no_permit.try_acquire_for(d); break;
      case 4: (void)unfinished.wait_for(d); break;
      case 5: (void)empty.receive_for(item, d); break;
      case 6: (void)full.send_for(2, d); break;
      default:
        lock.lock();
        cv.wait_for(lock, d, [] { return false; });
    }
  }
  template <class T>
  void wait_until(int kind, const T& tp) {
    std::unique_lock lock(m, std::defer_lock);
    int item = 0;
    switch (kind) {
      case 0: lagom::this_fiber::sleep_until(tp); break;
      case 1:
        lock.lock();
        (void)cv.wait_until(lock, tp);
        break;
      case 2: (void)never_set.wait_until(tp); break;
      case 3: (void)no_permit.try_acquire_until(tp); break;
      case 4: (void)unfinished.wait_until(tp); break;
      case 5: (void)empty.receive_until(item, tp); break;
      case 6: (void)full.send_until(2, tp); break;
      default: (void)lagom::io::wait_readable(sockets[0], tp);
    }
  }
};

// wait(all, kind) in a fiber each; whether they wait until they are stopped, or come back by themselves.
template <class Wait>
void check(lagom::runtime& rt, const char* what, bool is_endless, Wait wait) {
  INFO(what);
  everything all;
  std::vector<lagom::fiber> fibers;
  for (int kind = 0; kind < everything::kinds; ++kind) {
    fibers.push_back(rt.spawn([&, kind] { (void)error_of([&] { wait(all, kind); }); }));
  }
  if (is_endless) {
    std::this_thread::sleep_for(is_long() ? 300ms : 20ms);
    for (lagom::fiber& f : fibers) CHECK_FALSE(f.join_for(0s));
    for (lagom::fiber& f : fibers) f.request_stop();
  }
  for (lagom::fiber& f : fibers) REQUIRE(f.join_for(limit(5s)));
}

// A ticker that notes how wrong other timers have become meanwhile.
class witness {
 public:
  explicit witness(lagom::runtime& rt)
      : fiber_(rt.spawn([this](std::stop_token stop) {
          while (!stop.stop_requested()) {
            const auto begun = clock::now();
            if (error_of([] { lagom::this_fiber::sleep_for(2ms); })) break;
            late_ms_.push_back(milliseconds(clock::now() - begun) - 2);
          }
        })) {}
  ~witness() {
    fiber_.request_stop();
    fiber_.join();
    CHECK(percentile(late_ms_, 0) >= 0);
    CHECK(percentile(late_ms_, 95) < milliseconds(limit(20ms)));
  }

 private:
  std::vector<double> late_ms_;
  lagom::fiber fiber_;
};

}  // namespace

TEST_CASE("11: durations at the ends of their range") {
  lagom::runtime rt({.workers = 2});
  const witness ticker(rt);
  const auto for_a = [&](const char* what, bool is_endless, auto d) {
    check(rt, what, is_endless, [d](everything& all, int kind) { all.wait_for(kind, d); });
  };
  for_a("max", true, ns::max());
  for_a("max - 1", true, ns::max() - 1ns);
  for_a("max / 2", true, ns::max() / 2);
  for_a("hours::max", true, std::chrono::hours::max());
  for_a("seconds::max", true, std::chrono::seconds::max());
  for_a("floating hours", true, std::chrono::duration<double, std::ratio<3600>>(1e300));
  for_a("an hour in picoseconds", true, picoseconds(std::int64_t{3'600'000'000'000'000}));
  for_a("zero", false, 0ns);
  for_a("negative", false, -1ns);
  for_a("min", false, ns::min());
  for_a("hours::min", false, std::chrono::hours::min());
  for_a("a picosecond", false, picoseconds(1));
  for_a("minus a picosecond", false, picoseconds(-1));
}

TEST_CASE("11: points in time at the ends of their range") {
  lagom::runtime rt({.workers = 2});
  const witness ticker(rt);
  const auto until = [&](const char* what, bool is_endless, auto tp) {
    check(rt, what, is_endless, [tp](everything& all, int kind) { all.wait_until(kind, tp); });
  };
  using system = std::chrono::system_clock;
  until("steady max", true, clock::time_point::max());
  until("steady max - 1", true, clock::time_point::max() - 1ns);
  until("system max", true, system::time_point::max());
  until("system max in hours", true, std::chrono::time_point<system, std::chrono::hours>::max());
  until("steady min", false, clock::time_point::min());
  until("steady epoch", false, clock::time_point());
  until("system min", false, system::time_point::min());
  until("just over", false, clock::now());
}

TEST_CASE("11: plain threads too") {
  everything all;
  const auto begun = clock::now();
  for (int kind = 0; kind < everything::kinds; ++kind) {
    all.wait_for(kind, 0ns);
    all.wait_for(kind, ns::min());
    all.wait_for(kind, std::chrono::hours::min());
    all.wait_until(kind, clock::time_point::min());
    all.wait_until(kind, std::chrono::system_clock::time_point::min());
  }
  CHECK(clock::now() - begun < 1s);
  // A long one, ended by what it waits for.
  std::thread waits([&] { (void)all.never_set.wait_for(std::chrono::hours::max()); });
  std::thread sleeps([&] { (void)all.no_permit.try_acquire_until(clock::time_point::max()); });
  std::this_thread::sleep_for(5ms);
  all.never_set.set();
  all.no_permit.release();
  waits.join();
  sleeps.join();
}
