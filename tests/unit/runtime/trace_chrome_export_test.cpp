// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "trace/chrome_export.hpp"

using lagom::trace::chrome_names;
using lagom::trace::event;
using lagom::trace::event_kind;
using lagom::trace::worker_recording;
using nlohmann::json;

namespace {

constexpr std::int64_t start = 5'000'000'000;

event at(std::int64_t nanoseconds, event_kind kind, std::uint64_t fiber, std::uint64_t argument = 0) {
  return {start + nanoseconds, fiber, argument, kind};
}

json exported(const std::vector<worker_recording>& workers, const chrome_names& names = {}) {
  std::ostringstream out;
  lagom::trace::write_chrome_trace(out, workers, names);
  return json::parse(out.str());
}

// The events of one phase.
std::vector<json> of_phase(const json& trace, const std::string& phase) {
  std::vector<json> found;
  for (const json& each : trace.at("traceEvents")) {
    if (each.at("ph") == phase) {
      found.push_back(each);
    }
  }
  return found;
}

}  // namespace

TEST_CASE("nothing recorded is still a valid trace") {
  CHECK(exported({}).at("traceEvents").empty());
  const json one_idle = exported({{3, {}}});
  REQUIRE(of_phase(one_idle, "M").size() == 1);
  CHECK(of_phase(one_idle, "M")[0].at("args").at("name") == "worker 3");
}

TEST_CASE("a stint is a bar from running to its end, with the reason") {
  const json trace = exported(
      {{0, {{at(0, event_kind::running, 7), at(1'234'567, event_kind::parked, 7, 2)}, 0}},
       {1, {{at(500, event_kind::running, 8), at(1500, event_kind::yielded, 8)}, 0}}},
      {[](std::uint64_t fiber) { return fiber == 7 ? "say \"hi\"\n\\" : std::string{}; },
       [](std::uint64_t reason) { return reason == 2 ? "mutex" : "other"; }});
  const std::vector<json> bars = of_phase(trace, "X");
  REQUIRE(bars.size() == 2);
  CHECK(bars[0].at("name") == "say \"hi\"\n\\");
  CHECK(bars[0].at("tid") == 0);
  CHECK(bars[0].at("ts") == doctest::Approx(0.0));
  CHECK(bars[0].at("dur") == doctest::Approx(1234.567));
  CHECK(bars[0].at("args").at("ended") == "parked");
  CHECK(bars[0].at("args").at("reason") == "mutex");
  CHECK(bars[1].at("name") == "fiber 8");
  CHECK(bars[1].at("tid") == 1);
  CHECK(bars[1].at("ts") == doctest::Approx(0.5));
  CHECK(bars[1].at("dur") == doctest::Approx(1.0));
  CHECK(bars[1].at("args").at("ended") == "yielded");
}

TEST_CASE("beginnings that were overwritten are left out, unfinished ones last to the end") {
  const json trace = exported({{0,
                                {{at(10, event_kind::exited, 1), at(20, event_kind::running, 2),
                                  at(2020, event_kind::spawned, 3, 2)},
                                 17}}});
  const std::vector<json> bars = of_phase(trace, "X");
  REQUIRE(bars.size() == 1);
  CHECK(bars[0].at("args").at("fiber") == 2);
  CHECK(bars[0].at("dur") == doctest::Approx(2.0));
  CHECK(bars[0].at("args").at("ended") == "not yet");
  const std::vector<json> instants = of_phase(trace, "i");
  REQUIRE(instants.size() == 1);
  CHECK(instants[0].at("name") == "spawned fiber 3");
  CHECK(instants[0].at("args").at("argument") == 2);
  bool lost_told = false;
  for (const json& each : of_phase(trace, "M")) {
    lost_told = lost_told || each.at("args").value("labels", "") == "17 older events lost";
  }
  CHECK(lost_told);
}

TEST_CASE("a worker's sleep is a bar of its own") {
  const json trace = exported(
      {{0, {{at(0, event_kind::worker_sleeping, 0, ~std::uint64_t{0}), at(3000, event_kind::worker_awake, 0, 1)}, 0}}});
  const std::vector<json> bars = of_phase(trace, "X");
  REQUIRE(bars.size() == 1);
  CHECK(bars[0].at("name") == "sleeping");
  CHECK(bars[0].at("cat") == "worker");
  CHECK(bars[0].at("dur") == doctest::Approx(3.0));
}
