// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <lagom/lagom.hpp>

// Every primitive must work from fibers and from plain threads: each test runs in all of these settings.
namespace sync_test {

enum class members { threads, fibers, mixed };

struct setting {
  members who;
  unsigned workers;
  const char* name;
  unsigned chaos = 0;  // seed
};

inline constexpr setting settings[] = {
    {members::threads, 0, "threads"},
    {members::fibers, 1, "fibers on 1 worker"},
    {members::fibers, 2, "fibers on 2 workers"},
    {members::fibers, 4, "fibers on 4 workers"},
    {members::mixed, 2, "fibers on 2 workers and threads"},
    {members::fibers, 2, "fibers on 2 workers, chaos", 11},
};

// Some fibers or threads that run until they end by themselves. What they find wrong is collected: a fiber may be moved
// to another thread within an expression, which doctest's macros do not expect.
class crowd {
 public:
  explicit crowd(const setting& s) : setting_(s) {
    if (s.workers == 0) return;
    lagom::runtime_options options;
    options.workers = s.workers;
    options.chaos_seed = s.chaos;
    runtime_.emplace(std::move(options));
  }
  crowd(const crowd&) = delete;
  crowd& operator=(const crowd&) = delete;
  ~crowd() { finish(); }

  void start(std::function<void()> body) {
    auto guarded = [this, body = std::move(body)] {
      try {
        body();
      } catch (const std::exception& e) {
        fail(std::string("exception: ") + e.what());
      }
    };
    const bool as_fiber = setting_.who == members::fibers || (setting_.who == members::mixed && started_ % 2 == 0);
    ++started_;
    if (as_fiber) {
      fibers_.push_back(runtime_->spawn(std::move(guarded)));
    } else {
      threads_.emplace_back(std::move(guarded));
    }
  }
  void start_many(int count, std::function<void(int)> body) {
    for (int i = 0; i < count; ++i) start([body, i] { body(i); });
  }

  void expect(bool condition, std::string_view what) {
    if (!condition) fail(what);
  }

  // Waits for all, then reports.
  void finish() {
    for (lagom::fiber& f : fibers_) f.join();
    for (std::thread& t : threads_) t.join();
    fibers_.clear();
    threads_.clear();
    for (const std::string& line : failures_) FAIL_CHECK((std::string(setting_.name) + ": " + line));
    failures_.clear();
  }

 private:
  void fail(std::string_view what) {
    const lagom::detail::spin_guard hold(failures_lock_);
    if (failures_.size() < 10) failures_.emplace_back(what);
  }

  const setting setting_;
  std::optional<lagom::runtime> runtime_;
  std::vector<lagom::fiber> fibers_;
  std::vector<std::thread> threads_;
  lagom::detail::spin_lock failures_lock_;
  std::vector<std::string> failures_;
  int started_ = 0;
};

using clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// Sleeps a fiber or a thread.
inline void nap(std::chrono::nanoseconds d) { lagom::this_fiber::sleep_for(d); }

// Lets the others get on: to give an expected interleaving its chance. No test depends on its being long enough.
inline void let_others_run() { nap(2ms); }

// LAGOM_TEST_SHORT: the short form, for sanitizers.
inline bool is_short() { return std::getenv("LAGOM_TEST_SHORT") != nullptr; }
inline int rounds(int full) { return is_short() ? (full + 9) / 10 : full; }

}  // namespace sync_test
