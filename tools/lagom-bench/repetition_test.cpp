// SPDX-License-Identifier: BSL-1.0
#include "repetition.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <stdexcept>
#include <thread>
#include <vector>

namespace lagom::bench {

namespace {

repetition repeat(const std::function<measurement()>& body, double timeout = 0) {
  return repeat_in_child(body, timeout, [](double) {});
}

measurement something() {
  measurement m{};
  m.seconds = 0.25;
  m.ops = 7;
  m.switches = 3;
  return m;
}

}  // namespace

TEST_CASE("what the child measured arrives, with its own peak of memory") {
  const auto done = repeat([] {
    auto m = something();
    m.latency = latencies{1, 2, 3, 4};
    m.handovers = 0.5;
    return m;
  });
  REQUIRE(done.result.has_value());
  CHECK(done.result->seconds == doctest::Approx(0.25));
  CHECK(done.result->ops == 7);
  CHECK(done.result->switches == 3);
  CHECK(done.result->latency.value().p999_us == doctest::Approx(3));
  CHECK(done.result->handovers.value() == doctest::Approx(0.5));
  CHECK(done.result->max_rss_kb > 0);
}

TEST_CASE("an exception is a failure that says what it said") {
  const auto done = repeat([]() -> measurement { throw check_failed("three messages short"); });
  CHECK_FALSE(done.result.has_value());
  CHECK(done.failure == "three messages short");
}

TEST_CASE("a crash is a failure") {
  const auto done = repeat([]() -> measurement {
    ::raise(SIGKILL);
    return something();
  });
  CHECK_FALSE(done.result.has_value());
  CHECK(done.failure.find("signal 9") != std::string::npos);
}

TEST_CASE("a child that leaves without a word is a failure") {
  const auto done = repeat([]() -> measurement { ::_exit(0); });
  CHECK_FALSE(done.result.has_value());
  CHECK(done.failure.find("no result") != std::string::npos);
}

TEST_CASE("having done nothing is a failure") {
  CHECK(repeat([] { return measurement{}; }).failure == "nothing was done");
}

TEST_CASE("a child that hangs is ended") {
  const auto done = repeat(
      []() -> measurement {
        for (;;) ::pause();
      },
      0.1);
  CHECK_FALSE(done.result.has_value());
  CHECK(done.failure == "not done after 0.1 s");
}

TEST_CASE("of many threads that fail at once one is heard, though another would wait for ever") {
  const auto done = repeat([]() -> measurement {
    std::vector<std::thread> threads;
    for (int number = 0; number < 8; ++number) {
      threads.emplace_back([] { or_fail_run([] { throw check_failed("out of order"); }); });
    }
    threads.emplace_back([] { ::pause(); });
    for (auto& thread : threads) thread.join();
    return something();
  });
  CHECK(done.failure == "out of order");
}

}  // namespace lagom::bench
