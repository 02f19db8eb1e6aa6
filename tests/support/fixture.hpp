// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <lagom/lagom.hpp>

// What tests of the runtime share: a run at several worker counts that leaves nothing behind, short forms, and a place
// where fibers say what they found wrong.
namespace lagom::tests {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

/// LAGOM_TEST_SHORT: counts divided by ten and limits of time multiplied by ten, for sanitizers.
inline bool is_short() { return std::getenv("LAGOM_TEST_SHORT") != nullptr; }
/// LAGOM_TEST_LONG: the windows of the paper instead of the scaled ones.
inline bool is_long() { return std::getenv("LAGOM_TEST_LONG") != nullptr; }
inline long rounds(long full) { return is_short() ? (full + 9) / 10 : full; }
template <class Rep, class Period>
std::chrono::nanoseconds limit(std::chrono::duration<Rep, Period> d) {
  return std::chrono::nanoseconds(d) * (is_short() ? 10 : 1);
}
/// A window of observation: short, default, long.
inline std::chrono::nanoseconds window(std::chrono::nanoseconds usual, std::chrono::nanoseconds whole) {
  return is_long() ? whole : is_short() ? usual / 4 : usual;
}

/// Collects what fibers and threads find wrong; reports it when it ends. doctest's macros do not expect to be moved to
/// another thread within an expression, so a condition that may wait is not for them.
class verdict {
 public:
  verdict() = default;
  verdict(const verdict&) = delete;
  verdict& operator=(const verdict&) = delete;
  ~verdict() {
    for (const std::string& line : failures_) FAIL_CHECK(line);
    if (more_ > 0) FAIL_CHECK((std::to_string(more_) + " more"));
  }

  bool expect(bool condition, std::string_view what) {
    if (!condition) {
      const lagom::detail::spin_guard hold(lock_);
      // The first few tell the story.
      if (failures_.size() < 10) {
        failures_.emplace_back(what);
      } else {
        ++more_;
      }
    }
    return condition;
  }

 private:
  lagom::detail::spin_lock lock_;
  std::vector<std::string> failures_;
  long more_ = 0;
};

/// The error code a call throws, or none.
template <class F>
std::error_code error_of(F&& f) {
  try {
    f();
  } catch (const std::system_error& e) {
    return e.code();
  }
  return {};
}

inline std::size_t entries_in(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}
inline std::size_t thread_count() { return entries_in("/proc/self/task"); }
inline std::size_t descriptor_count() { return entries_in("/proc/self/fd"); }

/// Waits until condition() holds, at most d; for plain threads.
template <class Condition>
bool becomes_true(Condition&& condition, std::chrono::nanoseconds d) {
  for (const auto until = clock::now() + d; clock::now() < until; std::this_thread::sleep_for(100us)) {
    if (condition()) return true;
  }
  return condition();
}

/// Threads and descriptors of the process; ended() says whether they are as they were.
class leak_check {
 public:
  leak_check() {
    // Some sanitizers start a thread of their own with the first one.
    std::thread([] {}).join();
    becomes_true([last = std::size_t{0}]() mutable { return std::exchange(last, thread_count()) == thread_count(); }, 1s);
    threads_ = thread_count();
    descriptors_ = descriptor_count();
  }
  void check() const {
    // A joined thread stays in /proc for a moment.
    becomes_true([this] { return thread_count() <= threads_; }, 5s);
    CHECK(thread_count() <= threads_);
    CHECK(descriptor_count() == descriptors_);
  }

 private:
  std::size_t threads_ = 0, descriptors_ = 0;
};

/// Runs body(runtime) on runtimes of several sizes. The body must have ended or joined its fibers when it returns.
template <class Body>
void for_each_worker_count(Body&& body, runtime_options options = {}, std::initializer_list<unsigned> counts = {1, 2, 4, 16}) {
  for (const unsigned workers : counts) {
    INFO("workers: ", workers);
    const leak_check leaks;
    {
      options.workers = workers;
      runtime_options chosen = options;
      // Four workers sit in two caches of two each, so that near and far differ wherever the test runs.
      if (workers == 4 && chosen.topology.empty()) chosen.topology = "synthetic:pack:2 [numa] l3:1 core:2 pu:1";
      runtime rt(chosen);
      body(rt);
      // A fiber is joined a moment before it is counted as ended.
      CHECK(rt.drain_for(limit(10s)));
      CHECK(rt.stats().fibers == 0);
      CHECK(rt.stats().spawned == rt.stats().finished);
    }
    leaks.check();
  }
}

}  // namespace lagom::tests
