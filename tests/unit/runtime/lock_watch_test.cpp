// SPDX-License-Identifier: BSL-1.0
// The report of checking builds: a system mutex held across a switch. Built with the sources that differ in them.
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "child.hpp"
#include "os/lock_watch.hpp"
#include "support/fixture.hpp"

using namespace lagom::tests;

namespace {

// What the checking build says about a fiber named "careless" that runs body, beside one that only yields.
template <class F>
std::string said_about(F body, unsigned workers = 1) {
  const child_result child = run_in_child([&] {
    lagom::runtime rt({.workers = workers});
    lagom::fiber innocent = rt.spawn({.name = "innocent"}, [](std::stop_token stop) {
      while (!stop.stop_requested()) lagom::this_fiber::yield();
    });
    rt.spawn({.name = "careless"}, body).join();
  });
  CHECK(child.exited_with(0));
  CHECK(child.output.find("innocent") == std::string::npos);
  return child.output;
}

long lines_in(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }
bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

std::mutex plain;
std::timed_mutex timed;
std::recursive_mutex recursive;
std::shared_mutex shared;

}  // namespace

TEST_CASE("a std::mutex held across a wait is reported, with the fiber, the wait and the place") {
  if (!lagom::os::watches_locks) return;
  const std::string text = said_about([] {
    const std::lock_guard hold(plain);
    lagom::this_fiber::sleep_for(100us);
  });
  CHECK(lines_in(text) == 1);
  CHECK(contains(text, "'careless' gives its worker away (sleep) while it holds 1 mutex"));
  CHECK(contains(text, "lock_watch_test+0x"));
  CHECK(contains(text, "non_migratable"));
}

TEST_CASE("every kind of lock, and how many") {
  if (!lagom::os::watches_locks) return;
  CHECK(contains(said_about([] {
    const std::shared_lock hold(shared);
    for (int i = 0; i < 1000; ++i) lagom::this_fiber::yield();  // some of them find that it is still this fiber's turn
  }), "(yield)"));
  CHECK(contains(said_about([] {
    const std::unique_lock hold(shared);
    lagom::mutex m;
    m.lock();
    lagom::fiber other = lagom::spawn([&] {
      lagom::this_fiber::sleep_for(1ms);
      m.unlock();
    });
    m.lock();
    m.unlock();
    other.join();
  }), "(mutex)"));
  CHECK(contains(said_about([] {
    const std::unique_lock first(timed, 1s);
    const std::unique_lock second(recursive, std::try_to_lock);
    const std::lock_guard third(recursive);
    lagom::this_fiber::sleep_for(100us);
  }), "holds 3 mutex"));
  CHECK(contains(said_about([] { plain.lock(); }), "(its end)"));
}

TEST_CASE("each place is reported once") {
  if (!lagom::os::watches_locks) return;
  const std::string text = said_about([] {
    for (int i = 0; i < 10; ++i) {
      const std::lock_guard hold(plain);
      lagom::this_fiber::sleep_for(10us);
    }
  });
  CHECK(lines_in(text) == 1);
}

TEST_CASE("what is right is not reported") {
  const std::string text = said_about(
      [] {
        {
          const lagom::non_migratable here;
          const std::lock_guard hold(plain);
          lagom::this_fiber::sleep_for(10us);
        }
        {
          const std::lock_guard hold(plain);
        }
        lagom::mutex ours;
        const std::lock_guard hold(ours);
        lagom::this_fiber::sleep_for(10us);
        lagom::blocking([] {
          // Waits and unlocks as a plain thread may.
          const std::lock_guard taken(plain);
          lagom::this_fiber::sleep_for(10us);
        });
        std::unique_lock lock(plain);
        std::condition_variable never;
        never.wait_for(lock, 1us);
        lock.unlock();
        lagom::this_fiber::yield();
      },
      2);
  CHECK(text == "");
}

TEST_CASE("describe_code names the file and the offset, and cuts what does not fit") {
  char text[200];
  lagom::os::describe_code(reinterpret_cast<const void*>(&lines_in), text);
  CHECK(contains(text, "lock_watch_test+0x"));
  char little[8];
  lagom::os::describe_code(reinterpret_cast<const void*>(&lines_in), little);
  CHECK(std::string(little).size() == 7);
  lagom::os::describe_code(nullptr, text);
  CHECK_FALSE(std::string(text).empty());
}
