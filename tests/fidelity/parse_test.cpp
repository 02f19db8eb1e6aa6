// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <string>

#include "scenario/scenario.hpp"

namespace lagom::scenarios {

namespace {

constexpr auto whole = R"({
  "name": "mixed", "cpu": 1, "duration_ns": 5000, "warmup_ns": 1000, "phases_ns": [1000, 3000, 5000],
  "events": [{"at_ns": 3000, "thread": "b", "policy": "idle"}, {"at_ns": 2000, "thread": "a1", "nice": 5, "slice_ns": 0}],
  "threads": [
    {"name": "a", "count": 2, "nice": -5, "slice_ns": 300, "pattern": {"type": "periodic", "run_ns": 10, "period_ns": 100}},
    {"name": "b", "policy": "batch", "start_ns": 7, "cpu": 0, "pattern": {"type": "pingpong", "peer": "c", "run_ns": 5, "first": true}},
    {"name": "c", "cpu": -1, "home_cpu": 1, "pattern": {"type": "pingpong", "peer": "b", "run_ns": 0}}]})";

/// The text with one part replaced; the part must be there.
std::string with(const std::string& before, const std::string& after) {
  std::string text = whole;
  const auto at = text.find(before);
  REQUIRE(at != std::string::npos);
  return text.replace(at, before.size(), after);
}

std::string complaint(const std::string& text) {
  try {
    parse(text, "file");
  } catch (const input_error& e) {
    return e.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("scenario: everything a file can say") {
  const scenario s = parse(whole, "file");
  CHECK(s.name == "mixed");
  CHECK(s.duration == 5000);
  CHECK(s.warmup == 1000);
  CHECK(s.phases == std::vector<nanos>{1000, 3000, 5000});
  REQUIRE(s.threads.size() == 4);
  CHECK(s.threads[0].name == "a0");
  CHECK(s.threads[1].name == "a1");
  CHECK(s.threads[1].cpu == 1);
  CHECK(s.threads[1].sched.nice == -5);
  CHECK(s.threads[1].sched.slice == 300);
  CHECK(s.threads[1].pattern.kind == pattern_kind::periodic);
  CHECK(s.threads[1].pattern.period == 100);
  CHECK(s.threads[2].sched.policy == policy::batch);
  CHECK(s.threads[2].start == 7);
  CHECK(s.threads[2].pattern.peer == 3);
  CHECK(s.threads[2].pattern.has_token);
  CHECK(s.threads[3].pattern.peer == 2);
  CHECK_FALSE(s.threads[3].pattern.has_token);
  CHECK(s.threads[3].cpu == any_cpu);
  CHECK(s.threads[3].home_cpu == 1);
  REQUIRE(s.events.size() == 2);  // in order of time
  CHECK(s.events[0].thread == 1);
  const attributes changed = s.events[0].applied_to(s.threads[1].sched);
  CHECK(changed.nice == 5);
  CHECK(changed.slice == 0);
  CHECK(s.events[1].applied_to(changed).policy == policy::idle);
  CHECK(s.events[1].applied_to(changed).nice == 5);
}

TEST_CASE("scenario: how many CPUs and workers") {
  const scenario s = parse(whole, "file");
  CHECK(s.cpus() == 2);
  CHECK(s.workers() == 2);
  const auto one = parse(R"({"name": "x", "cpu": 5, "duration_ns": 1, "threads": [{"name": "t", "pattern": {"type": "busy"}}]})", "file");
  CHECK(one.workers() == 1);
  CHECK(one.cpus() == 6);
  CHECK(one.is_always_busy());
  CHECK_FALSE(s.is_always_busy());
  scenario moved = one;
  moved.move_to_cpu(0);
  CHECK(moved.cpus() == 1);
}

TEST_CASE("scenario: a shorter form ends earlier, and nothing else") {
  scenario s = parse(whole, "file");
  s.shorten(1500);
  CHECK(s.duration == 2500);
  CHECK(s.warmup == 1000);
  CHECK(s.phases == std::vector<nanos>{1000});
  CHECK(s.events.size() == 1);
  s.shorten(5000);
  CHECK(s.duration == 2500);
}

TEST_CASE("scenario: another scale of time") {
  const scenario s = scaled(parse(whole, "file"), 0.01);
  CHECK(s.duration == 50);
  CHECK(s.warmup == 10);
  CHECK(s.phases == std::vector<nanos>{10, 30, 50});
  CHECK(s.events[0].at == 20);
  CHECK(*s.events[0].slice == 0);  // still: the default
  CHECK(s.threads[0].sched.slice == 3);
  CHECK(s.threads[0].pattern.run == 1);  // not less than the clock can tell
  CHECK(s.threads[3].pattern.run == 0);
}

TEST_CASE("scenario: errors say where, what, and what would be right") {
  struct {
    std::string text;
    const char* where;
    const char* what;
  } const cases[] = {
      {"{", "file: ", "not valid JSON"},
      {"[]", "file: ", "must be an object, is array"},
      {with("\"duration_ns\": 5000, ", ""), "file: ", "'duration_ns' is missing"},
      {with("5000, \"warmup", "-1, \"warmup"), "file: ", "from 1 to"},
      {with("\"warmup_ns\": 1000", "\"warmup_ns\": 5000"), "file: ", "from 0 to 4999"},
      {with("\"warmup_ns\"", "\"warm_up_ns\""), "file: ", "unknown key 'warm_up_ns'; there are: name, duration_ns, warmup_ns"},
      {with("1000, 3000, 5000", "1000, 900"), "file: ", "from 1000 to 5000, is 900"},
      {with("\"periodic\"", "\"periodical\""), "file: threads[0]: pattern: ", "one of \"busy\", \"run_sleep\""},
      {with(", \"period_ns\": 100", ""), "file: threads[0]: pattern: ", "'period_ns' is missing"},
      {with("\"count\": 2", "\"count\": 2.5"), "file: threads[0]: ", "'count' must be a whole number from 1 to"},
      {with("\"nice\": -5", "\"nice\": -21"), "file: threads[0]: ", "from -20 to 19, is -21"},
      {with("\"batch\"", "\"fifo\""), "file: threads[1]: ", "one of \"normal\", \"batch\", \"idle\", is \"fifo\""},
      {with("\"peer\": \"c\"", "\"peer\": \"d\""), "file: threads[1]: pattern: ", "'d' is no thread"},
      {with("\"peer\": \"c\"", "\"peer\": \"a0\""), "file: threads[1]: pattern: ", "'a0' has another pattern"},
      {with("\"first\": true", "\"first\": 1"), "file: threads[1]: pattern: ", "must be true or false, is 1"},
      {with("\"name\": \"c\"", "\"name\": \"b\""), "file: threads[2]: ", "a thread named 'b' already"},
      {with("\"thread\": \"b\"", "\"thread\": \"a\""), "file: events[0]: ", "'a' is none"},
  };
  for (const auto& one : cases) {
    const std::string message = complaint(one.text);
    CAPTURE(message);
    CHECK(message.rfind(one.where, 0) == 0);
    CHECK(message.find(one.what) != std::string::npos);
  }
  CHECK_THROWS_WITH_AS(read_file("/no/such/file.json"), doctest::Contains("/no/such/file.json: cannot be read"), input_error);
}

}  // namespace lagom::scenarios
