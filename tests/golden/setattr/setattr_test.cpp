// SPDX-License-Identifier: BSL-1.0
// The decision table of a change of attributes, row by row: initial state × request × what else is named. The columns
// k618 and v4 say what Linux 6.18 and a proposed change of it do, for comparison; lagom's is the one that must hold.
#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "scheduler/attributes.hpp"

namespace lagom::test {
namespace {

using namespace scheduler;
using json = nlohmann::json;

constexpr nanos default_slice = 2'800'000, changed_default = 3'000'000;
// The kernel's range: a custom slice outside is clamped.
constexpr slice_rules kernel_range(nanos by_default) {
  return {by_default, 100'000, 100'000'000, slice_rules::beyond::is_clamped};
}

json table() {
  std::ifstream file(LAGOM_SETATTR_TABLE);
  REQUIRE(file.is_open());
  return json::parse(file);
}

policy policy_named(const std::string& name) {
  return name == "idle" ? policy::idle : name == "batch" ? policy::batch : policy::normal;
}

std::string path_name(change_path path) {
  return path == change_path::fast ? "fast" : path == change_path::full ? "full" : "EINVAL";
}

// A row's first, third, fourth and fifth column.
attribute_state state_of(const json& row) {
  attribute_state s;
  const std::string mode = row[0];
  s.has_custom_slice = mode != "default";
  s.slice = mode == "custom 1ms" ? 1'000'000 : default_slice;
  const std::string clamp = row[3];
  if (clamp == "implicit-stale") s.util_min = {1024, false};
  if (clamp == "user") s.util_min = {300, true};
  s.is_boosted = row[4] == 1;
  return s;
}

attribute_wish wish_of(const json& row) {
  static const std::map<std::string, nanos> slices{
      {"r=0", 0}, {"r=2.8ms", 2'800'000}, {"r=1ms", 1'000'000}, {"r=5ms", 5'000'000}, {"r=50us", 50'000}};
  attribute_wish w;
  const std::string request = row[1], other = row[5];
  if (request != "setparam") w.slice = slices.at(request);
  if (other == "nice-5") w.nice = -5;
  if (other == "->idle") w.kind = policy::idle;
  return w;
}

clamp_request request_of(const json& pair) { return {pair[0].get<std::int16_t>(), pair[1].get<bool>()}; }

// Overwrites what the object names.
void overwrite(attribute_state& s, const json& named) {
  if (named.contains("policy")) s.kind = policy_named(named["policy"]);
  if (named.contains("nice")) s.nice = named["nice"].get<std::int8_t>();
  if (named.contains("custom")) s.has_custom_slice = named["custom"];
  if (named.contains("slice")) s.slice = named["slice"];
  if (named.contains("min")) s.util_min = request_of(named["min"]);
  if (named.contains("max")) s.util_max = request_of(named["max"]);
  if (named.contains("boosted")) s.is_boosted = named["boosted"];
}

// As sched_setattr() is called there: a runtime that is not given is 0, default mode, unless the call has no such argument.
attribute_wish wish_of_call(const json& call) {
  attribute_wish w;
  if (!call.contains("setparam")) w.slice = call.value("runtime", nanos{0});
  if (call.contains("policy")) w.kind = policy_named(call["policy"]);
  if (call.contains("nice")) w.nice = call["nice"].get<int>();
  if (call.contains("cmin")) w.util_min = call["cmin"].get<int>();
  if (call.contains("cmax")) w.util_max = call["cmax"].get<int>();
  w.keeps_params = call.value("keep_params", false);
  return w;
}

}  // namespace

TEST_CASE("setattr: 540 rows") {
  const json all = table();
  REQUIRE(all["rows"].size() == 540);
  for (const json& row : all["rows"]) {
    CAPTURE(row.dump());
    const attribute_state before = state_of(row);
    const change_decision d = decide(before, wish_of(row), kernel_range(row[2] == 1 ? changed_default : default_slice));
    CHECK(path_name(d.path) == row[8]);
    CHECK(d.why == refusal::none);
    // [policy, nice, custom, slice, min, min is the user's]
    const json& result = row[10].is_null() ? row[9] : row[10];
    attribute_state after = before;
    after.kind = policy_named(result[0]);
    after.nice = result[1].get<std::int8_t>();
    after.has_custom_slice = result[2] == 1;
    after.slice = result[3];
    after.util_min = {result[4].get<std::int16_t>(), result[5] == 1};
    CHECK(d.after == after);
  }
}

TEST_CASE("setattr: 24 scenarios") {
  const json all = table();
  REQUIRE(all["scenarios"].size() == 24);
  for (const json& scenario : all["scenarios"]) {
    CAPTURE(scenario.dump());
    attribute_state before;
    overwrite(before, scenario["before"]);
    const change_decision d = decide(before, wish_of_call(scenario["call"]), kernel_range(default_slice));
    CHECK(path_name(d.path) == scenario["lagom"]["decision"]);
    CHECK((d.why != refusal::none) == (d.path == change_path::invalid));
    attribute_state after = before;
    overwrite(after, scenario["lagom"]["changed"]);
    CHECK(d.after == after);
  }
}

TEST_CASE("setattr: what has been done once is not done again") {
  const json all = table();
  for (const json& row : all["rows"]) {
    CAPTURE(row.dump());
    if (row[4] == 1) continue;  // while boosted each call computes anew
    const slice_rules rules = kernel_range(row[2] == 1 ? changed_default : default_slice);
    const change_decision first = decide(state_of(row), wish_of(row), rules);
    const change_decision second = decide(first.after, wish_of(row), rules);
    CHECK(second.path == change_path::fast);
    CHECK(second.after == first.after);
  }
}

}  // namespace lagom::test
