// SPDX-License-Identifier: BSL-1.0
// Reports of runs that are written down here, so that every figure is known.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "scenario/record.hpp"

namespace lagom::scenarios {

namespace {

constexpr nanos ms = 1'000'000;
constexpr nanos origin = 700 * ms;  // anything

scenario two_busy() {
  return parse(R"({"name": "two", "duration_ns": 1100000000, "warmup_ns": 100000000, "phases_ns": [100000000, 600000000, 1100000000],
    "threads": [{"name": "a", "pattern": {"type": "busy"}}, {"name": "b", "pattern": {"type": "busy"}}]})",
               "file");
}

/// a and b in turn, `a_runs` and `b_runs` at a time, from the start to the end.
void take_turns(run_record& run, nanos a_runs, nanos b_runs) {
  const nanos lengths[] = {a_runs, b_runs};
  nanos now = run.measured.origin;
  for (std::size_t turn = 0; now < run.measured.end; ++turn) {
    auto& thread = run.threads[turn % 2];
    thread.log.begin_burst(now, 0, turn < 2 ? thread_log::start::woken : thread_log::start::resumed);
    now += lengths[turn % 2];
    thread.log.end_burst(now);
  }
}

}  // namespace

TEST_CASE("report: bursts, gaps and lag of two that take turns") {
  run_record run(two_busy(), 1);
  run.start(origin);
  take_turns(run, 4 * ms, 4 * ms);
  const auto out = report(run);
  const auto& a = out["threads"][0];
  CHECK(out["measured_ns"] == 1'000 * ms);
  CHECK(a["burst"]["n"] == 125);
  CHECK(a["burst"]["p50"] == 4 * ms);
  CHECK(a["gap"]["max"] == 4 * ms);
  CHECK(a["gap"]["over_200us"] == 1);
  CHECK(a["first_burst"]["n"] == 0);  // it was in the warm-up
  CHECK(a["bursts_on_cpu"][0] == 125);
  // Fair are 2 ms of each 4: the lag of whoever runs falls by 2 ms in a burst, the other's rises.
  CHECK(out["lag_spread"]["a"].get<double>() == doctest::Approx(2.0 * ms).epsilon(0.01));
  CHECK(out["phase_bursts"]["b"][1]["p50"] == 4 * ms);
}

TEST_CASE("report: a lag that grows all the time shows") {
  run_record run(two_busy(), 1);
  run.start(origin);
  take_turns(run, 4 * ms, 3 * ms);
  const auto out = report(run);
  CHECK(out["lag_spread"]["b"].get<double>() > 60.0 * ms);  // half a ms each 7, for 1 s
}

TEST_CASE("report: shares from counters, by phase too") {
  run_record run(two_busy(), 1);
  run.start(origin);
  run.threads[0].at_begin = {10, 0, 5, 1, 4};
  run.threads[0].at_end = {310, 50, 11, 2, 9};
  run.threads[1].at_end = {100, 0, 0, 0, 0};
  run.threads[0].phase_cpu = {0, 100, 400};
  run.threads[1].phase_cpu = {0, 100, 200};
  const auto out = report(run);
  CHECK(out["threads"][0]["share_of_scenario"] == 0.75);
  CHECK(out["threads"][0]["runs"] == 6);
  CHECK(out["threads"][0]["run_delay_ns"] == 50);
  CHECK(out["threads"][0]["involuntary"] == 5);
  CHECK(out["threads"][0]["phase_share"][0] == 0.5);
  CHECK(out["threads"][0]["phase_share"][1] == 0.75);
}

TEST_CASE("report: wake-ups outside of the measured span do not count, late ones do") {
  run_record run(two_busy(), 1);
  run.start(origin);
  auto& log = run.threads[0].log;
  log.note_wake(origin + 50 * ms, origin + 60 * ms);  // in the warm-up
  log.note_wake(origin + 200 * ms, origin + 200 * ms + 100'000);
  log.note_wake(origin + 300 * ms, origin + 300 * ms + 300'000);
  log.note_wake(origin + 2'000 * ms, origin + 2'001 * ms);
  log.note_response(origin + 200 * ms, origin + 205 * ms);
  log.note_child(origin + 200 * ms, origin + 201 * ms, origin + 203 * ms, 7);
  const auto out = report(run);
  const auto& thread = out["threads"][0];
  CHECK(thread["wake"]["n"] == 2);
  CHECK(thread["wake"]["max"] == 300'000);
  CHECK(thread["wake"]["over_200us"] == 0.5);
  CHECK(thread["response"]["n"] == 2);
  CHECK(thread["child_start"]["max"] == ms);
  CHECK(thread["children_cpu_ns"] == 7);
}

TEST_CASE("report: returns from long sleeps") {
  const auto what = parse(R"({"name": "back", "duration_ns": 5000000000, "threads": [
    {"name": "s", "pattern": {"type": "run_sleep", "run_ns": 200000000, "sleep_ns": 2000000000}}]})", "file");
  run_record run(what, 1);
  run.start(origin);
  auto& log = run.threads[0].log;
  for (int back = 0; back < 2; ++back) {
    nanos now = origin + (500 + 2'000 * back) * ms;
    for (int turn = 0; turn < 10; ++turn) {
      log.begin_burst(now, 0, turn == 0 ? thread_log::start::woken : thread_log::start::resumed);
      log.end_burst(now + 10 * ms);
      now += 20 * ms;
    }
  }
  const auto out = report(run);
  REQUIRE(out["returns"].size() == 2);
  CHECK(out["returns"][1]["first_burst"] == 10 * ms);
  CHECK(out["returns"][1]["share_20ms"] == 0.5);
  CHECK(out["returns"][1]["share_50ms"] == 0.6);
  CHECK(out["returns"][1]["share_100ms"] == 0.5);
}

TEST_CASE("report: a run at another scale of time is reported in the times of the file") {
  run_record run(scaled(two_busy(), 0.01), 1);
  run.scale = 0.01;
  run.threads[0].slice_seen = 14'000;
  run.start(origin);
  run.threads[0].log.note_wake(origin + 5 * ms, origin + 5 * ms + 1'000);
  run.threads[0].log.note_wake(origin + 6 * ms, origin + 6 * ms + 3'000);
  const auto out = report(run);
  CHECK(out["threads"][0]["wake"]["over_200us"] == 0.5);
  CHECK(out["threads"][0]["wake"]["max"] == 300'000);
  CHECK(out["threads"][0]["wake"]["n"] == 2);
  CHECK(out["measured_ns"] == 1'000 * ms);
  CHECK(out["threads"][0]["slice_ns"] == 1'400'000);
  CHECK(out["lag_spread"]["a"] == 0);
}

TEST_CASE("report: a limited number of samples still has the right quantiles") {
  samples all;
  constexpr std::int64_t count = 1'000'000;
  for (std::int64_t i = 0; i < count; ++i) {
    all.add((i * 7919) % count);
  }
  const auto out = all.summary(count / 2);
  CHECK(out["n"] == count);
  CHECK(out["max"] == count - 1);
  CHECK(out["p50"].get<double>() == doctest::Approx(count / 2).epsilon(0.02));
  CHECK(out["p99"].get<double>() == doctest::Approx(0.99 * count).epsilon(0.02));
  CHECK(out["over_200us"].get<double>() == doctest::Approx(0.5).epsilon(0.02));
}

}  // namespace lagom::scenarios
