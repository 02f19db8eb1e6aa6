// SPDX-License-Identifier: BSL-1.0
// Stacks of fibers: where they end, and what can be seen of them from outside.
#include <doctest/doctest.h>
#include <execinfo.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include <lagom/lagom.hpp>

namespace {

using namespace std::chrono_literals;

std::vector<const void*> entered_from;

// Each level notes where it will return to: a backtrace must have all of these.
__attribute__((noinline)) void wait_in_the_depth(int depth, lagom::mutex& m) {
  entered_from.push_back(__builtin_return_address(0));
  if (depth > 0) {
    wait_in_the_depth(depth - 1, m);
  } else {
    const std::lock_guard hold(m);
  }
  asm volatile("" ::: "memory");  // no tail call
}

}  // namespace

TEST_CASE("backtrace() in a fiber ends where the fiber begins") {
  lagom::runtime rt({.workers = 1});
  void* frames[200] = {};
  const int n = rt.run([&] { return backtrace(frames, 200); });
  CHECK(n >= 3);
  CHECK(n < 50);
  for (int i = 0; i < n; ++i) CHECK(frames[i] != nullptr);
}

// A profiler that follows frame pointers in the kernel or in a signal handler has nothing but the two zeros to stop at.
TEST_CASE("the chain of frame pointers ends with no caller and no return address") {
  lagom::runtime rt({.workers = 1});
  int length = 0;
  const void* last_return = nullptr;
  rt.run([&] {
    auto** frame = static_cast<void**>(__builtin_frame_address(0));
    for (; frame && length < 100; frame = static_cast<void**>(frame[0])) {
      last_return = frame[1];
      ++length;
    }
  });
  CHECK(length >= 2);
  CHECK(length < 100);
  CHECK(last_return == nullptr);
}

TEST_CASE("a parked fiber's stack is told, in the report of a stop and in the dump") {
  lagom::runtime rt({.workers = 2});
  lagom::mutex held;
  held.lock();
  entered_from.clear();
  lagom::attributes named;
  named.name = "digger";
  lagom::fiber digger = rt.spawn(named, [&] { wait_in_the_depth(5, held); });
  while (digger.stats().state != lagom::fiber_state::parked) lagom::this_fiber::sleep_for(1ms);
  const lagom::stop_report report = rt.stop_for(1ms);
  std::ostringstream text;
  rt.dump(text);
  held.unlock();
  digger.join();

  REQUIRE(report.left.size() == 1);
  const std::vector<const void*>& frames = report.left[0].backtrace;
  CHECK(report.left[0].wait_reason == "mutex");
  REQUIRE(entered_from.size() == 6);
  auto at = frames.begin();
  for (std::size_t i = entered_from.size(); i-- > 0;) {
    at = std::find(at, frames.end(), entered_from[i]);
    CHECK(at != frames.end());
    if (at != frames.end()) ++at;
  }
  CHECK(frames.size() < 30);
  CHECK(text.str().find("'digger': parked (mutex) since ") != std::string::npos);
  CHECK(text.str().find("\n    #5 0x") != std::string::npos);
  CHECK(text.str().find("fiber_backtrace_test+0x") != std::string::npos);
}

// The stacks that are looked at go away, and come back as somebody else's, meanwhile.
TEST_CASE("dumps beside fibers that come and go") {
  lagom::runtime rt({.workers = 2});
  std::atomic<bool> enough{false};
  lagom::fiber busy = rt.spawn([&] {
    while (!enough) {
      lagom::event go;
      std::vector<lagom::fiber> some;
      for (int i = 0; i < 20; ++i) some.push_back(lagom::spawn([&] { go.wait(); }));
      lagom::this_fiber::yield();
      go.set();
      for (lagom::fiber& f : some) f.join();
      rt.trim();
    }
  });
  std::size_t frames = 0;
  for (int i = 0; i < 100; ++i) {
    std::ostringstream text;
    rt.dump(text);
    const std::string all = text.str();
    for (std::size_t at = all.find("    #"); at != std::string::npos; at = all.find("    #", at + 1)) ++frames;
  }
  enough = true;
  busy.join();
  CHECK(frames > 0);
}
