// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "trace/recorder.hpp"

using lagom::trace::event;
using lagom::trace::event_kind;
using lagom::trace::recorder;
using lagom::trace::recording;

namespace {

// An event whose words all follow from one number: a torn copy does not fit.
void record_number(recorder& into, std::uint64_t number) {
  into.record(event_kind::unparked, static_cast<std::int64_t>(number), number * 3, ~number);
}

bool is_whole(const event& seen) {
  const auto number = static_cast<std::uint64_t>(seen.time_ns);
  return seen.kind == event_kind::unparked && seen.fiber == number * 3 && seen.argument == ~number;
}

}  // namespace

TEST_CASE("off until started: nothing is kept") {
  recorder events;
  CHECK_FALSE(events.is_on());
  record_number(events, 1);
  CHECK(events.copy().events.empty());
  CHECK(events.copy().lost == 0);
}

TEST_CASE("events come back in order, whole") {
  recorder events;
  events.start(64);
  CHECK(events.is_on());
  for (std::uint64_t i = 0; i < 40; ++i) {
    record_number(events, i);
  }
  const recording seen = events.copy();
  REQUIRE(seen.events.size() == 40);
  CHECK(seen.lost == 0);
  for (std::uint64_t i = 0; i < 40; ++i) {
    CHECK(seen.events[i].time_ns == static_cast<std::int64_t>(i));
    CHECK(is_whole(seen.events[i]));
  }
}

TEST_CASE("a full ring keeps the newest and counts the lost") {
  recorder events;
  events.start(20);  // becomes 32
  for (std::uint64_t i = 0; i < 100; ++i) {
    record_number(events, i);
  }
  const recording seen = events.copy();
  REQUIRE(seen.events.size() == 32);
  CHECK(seen.lost == 68);
  CHECK(seen.events.front().time_ns == 68);
  CHECK(seen.events.back().time_ns == 99);
}

TEST_CASE("stop keeps what is there, start again forgets it") {
  recorder events;
  events.start(16);
  record_number(events, 1);
  events.stop();
  record_number(events, 2);
  CHECK(events.copy().events.size() == 1);
  events.start(1024);
  CHECK(events.copy().events.empty());
  record_number(events, 3);
  REQUIRE(events.copy().events.size() == 1);
  CHECK(events.copy().events[0].time_ns == 3);
  CHECK(events.copy().lost == 0);
}

TEST_CASE("a reader beside a running writer gets only whole events, without gaps") {
  recorder events;
  events.start(64);
  constexpr std::uint64_t records = 200'000;
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (std::uint64_t i = 0; i < records; ++i) {
      record_number(events, i);
    }
    done.store(true);
  });
  std::uint64_t torn = 0;
  std::uint64_t gaps = 0;
  std::uint64_t miscounted = 0;
  while (!done.load()) {
    const recording seen = events.copy();
    for (std::size_t i = 0; i < seen.events.size(); ++i) {
      torn += is_whole(seen.events[i]) ? 0 : 1;
      gaps += i > 0 && seen.events[i].time_ns != seen.events[i - 1].time_ns + 1 ? 1 : 0;
    }
    miscounted +=
        !seen.events.empty() && seen.lost != static_cast<std::uint64_t>(seen.events.front().time_ns) ? 1 : 0;
  }
  writer.join();
  CHECK(torn == 0);
  CHECK(gaps == 0);
  CHECK(miscounted == 0);
  CHECK(events.copy().lost == records - 64);
}
