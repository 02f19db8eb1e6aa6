// SPDX-License-Identifier: BSL-1.0
// What the system is told of a worker's clamps, on a system that notes it down. A refusal holds for the process, so each
// kind of refusal is tried in a process of its own: a child.
#include "worker/clamp_messenger.hpp"

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "support/fake_os/fake_os.hpp"

namespace {

using namespace lagom;
using detail::clamp_messenger;
using scheduler::clamp_summary;

constexpr std::int64_t us = 1'000, ms = 1'000'000;
constexpr int thread = 77;
constexpr clamp_summary boosted{800, 1024, 1}, capped{0, 300, 1}, none{};

struct listener {
  std::vector<std::string> lines;
  clamp_messenger::log_line log = [this](std::string_view line) { lines.emplace_back(line); };
};

// Runs body in a child; true if it returned true.
template <class Body>
bool in_a_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body() ? 0 : 1);
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("clamp messenger: a boost is told after 100 us, its end after 4 ms, and never more than once a millisecond") {
  fake_os::reset();
  listener heard;
  clamp_messenger m;
  std::vector<clamp_summary> asks{boosted, none, boosted, capped, none, boosted};
  for (std::size_t i = 0; i < asks.size(); ++i) {
    for (int k = 0; k < 200; ++k) {
      m.consider(thread, asks[i], 1, fake_os::now(), heard.log);
      fake_os::advance(50 * us);
    }
  }
  const auto& calls = fake_os::clamp_calls();
  REQUIRE(calls.size() == 6);
  const int expected[][2] = {{800, 1024}, {0, 1024}, {800, 1024}, {0, 300}, {0, 1024}, {800, 1024}};
  const std::int64_t after[] = {100 * us, 4 * ms, 100 * us, 4 * ms, 100 * us, 100 * us};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    CHECK(calls[i].thread == thread);
    CHECK(calls[i].min == expected[i][0]);
    CHECK(calls[i].max == expected[i][1]);
    CHECK(calls[i].time == fake_os::time_at_start + static_cast<std::int64_t>(i) * 10 * ms + after[i]);
  }
  CHECK(heard.lines.empty());
}

TEST_CASE("clamp messenger: a worker with nobody to run leaves things as they are") {
  fake_os::reset();
  listener heard;
  clamp_messenger m;
  for (int k = 0; k < 10; ++k, fake_os::advance(50 * us)) m.consider(thread, boosted, 1, fake_os::now(), heard.log);
  REQUIRE(fake_os::clamp_calls().size() == 1);
  for (int k = 0; k < 1000; ++k, fake_os::advance(50 * us)) m.consider(thread, none, 0, fake_os::now(), heard.log);
  CHECK(fake_os::clamp_calls().size() == 1);
}

TEST_CASE("clamp messenger: at the end a thread that was told something is told to forget it") {
  fake_os::reset();
  listener heard;
  clamp_messenger m;
  m.end(thread);
  CHECK(fake_os::clamp_calls().empty());
  for (int k = 0; k < 10; ++k, fake_os::advance(50 * us)) m.consider(thread, boosted, 1, fake_os::now(), heard.log);
  m.end(thread);
  REQUIRE(fake_os::clamp_calls().size() == 2);
  CHECK(fake_os::clamp_calls()[1].min == -1);
  CHECK(fake_os::clamp_calls()[1].max == -1);
  m.end(thread);
  CHECK(fake_os::clamp_calls().size() == 2);
}

TEST_CASE("clamp messenger: an unclamped fiber beside the capped one lifts the cap") {
  fake_os::reset();
  listener heard;
  clamp_messenger m;
  for (int k = 0; k < 100; ++k, fake_os::advance(50 * us)) m.consider(thread, capped, 2, fake_os::now(), heard.log);
  CHECK(fake_os::clamp_calls().empty());
  for (int k = 0; k < 100; ++k, fake_os::advance(50 * us)) m.consider(thread, capped, 1, fake_os::now(), heard.log);
  REQUIRE(fake_os::clamp_calls().size() == 1);
  CHECK(fake_os::clamp_calls()[0].max == 300);
}

TEST_CASE("clamp messenger: a refusal ends it for the process, with one line") {
  for (const int error : {EOPNOTSUPP, EPERM, ENOSYS}) {
    CHECK(in_a_child([error] {
      fake_os::reset();
      fake_os::fail_clamps(0, error);
      listener heard;
      clamp_messenger m, other;
      if (!clamp_messenger::is_possible(heard.log)) return false;
      for (int k = 0; k < 1000; ++k, fake_os::advance(50 * us)) {
        m.consider(thread, k % 400 < 200 ? boosted : none, 1, fake_os::now(), heard.log);
        other.consider(thread, boosted, 1, fake_os::now(), heard.log);
      }
      m.end(thread);
      return fake_os::clamp_calls().size() == 1 && heard.lines.size() == 1 && !clamp_messenger::is_possible(heard.log) &&
             heard.lines.size() == 1;
    }));
    CHECK(in_a_child([error] {
      fake_os::reset();
      fake_os::fail_clamps(error, 0);
      listener heard;
      return !clamp_messenger::is_possible(heard.log) && !clamp_messenger::is_possible(heard.log) && heard.lines.size() == 1;
    }));
  }
}

TEST_CASE("clamp messenger: a thread that is gone is no reason to give up") {
  CHECK(in_a_child([] {
    fake_os::reset();
    fake_os::fail_clamps(0, ESRCH);
    listener heard;
    clamp_messenger m;
    for (int k = 0; k < 1000; ++k, fake_os::advance(50 * us)) {
      m.consider(thread, k % 400 < 200 ? boosted : none, 1, fake_os::now(), heard.log);
    }
    return fake_os::clamp_calls().size() > 2 && heard.lines.empty();
  }));
}
