// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <string>

#include "scheduler/features.hpp"

namespace lagom::test {

using namespace lagom::scheduler;

TEST_CASE("features: names alone, negated, with values") {
  const auto parsed = features::parse(" no_run_to_parity, delay_dequeue,base_slice=200000 ,window = request,,");
  REQUIRE(parsed);
  CHECK_FALSE(parsed.value.run_to_parity);
  CHECK(parsed.value.delay_dequeue);
  CHECK(parsed.value.base_slice == 200'000);
  CHECK(parsed.value.window == window_rule::request);
  CHECK(parsed.offending.empty());
}

TEST_CASE("features: empty text is the base, the later word wins") {
  CHECK(features::parse("").value.base_slice == features::runtime().base_slice);
  CHECK(features::parse("", features::linux_7_1()).value.base_slice == 2'800'000);
  CHECK(features::parse("no_place_lag,place_lag").value.place_lag);
}

TEST_CASE("features: a preset's name sets everything before it and nothing after it") {
  const auto parsed = features::parse("base_slice=5000,linux-6.18,no_delay_dequeue,idle_stint=9");
  REQUIRE(parsed);
  CHECK(parsed.value.base_slice == features::linux_6_18().base_slice);
  CHECK(parsed.value.lag_limit == lag_rule::twice_own_slice);
  CHECK_FALSE(parsed.value.delay_dequeue);
  CHECK(parsed.value.idle_stint == 9);
  CHECK(features::parse("linux-5.0").error == features_error::unknown_name);
}

TEST_CASE("features: every flag can be switched, every listed name exists") {
  const std::string names(features::names());
  std::size_t count = 0;
  for (std::size_t start = 0; start < names.size(); ++count) {
    const std::size_t end = std::min(names.find(", ", start), names.size());
    const std::string name = names.substr(start, end - start);
    CAPTURE(name);
    const std::string values(features::values_of(name));
    CHECK_FALSE(values.empty());
    if (values.find("no_") != std::string::npos) {
      CHECK(features::parse(name));
      CHECK(features::parse("no_" + name));
      CHECK(features::parse(name + "=1").error == features_error::bad_value);
    } else if (values.find("nanoseconds") != std::string::npos) {
      CHECK(features::parse(name + "=1000000"));
      CHECK(features::parse(name).error == features_error::bad_value);
    } else {
      CHECK(features::parse(name + "=" + values.substr(0, values.find(','))));
      CHECK(features::parse(name + "=" + values.substr(values.rfind(' ') + 1)));
      CHECK(features::parse(name + "=nonsense").error == features_error::bad_value);
    }
    start = end + 2;
  }
  CHECK(count > 20);
}

TEST_CASE("features: what is wrong is named") {
  struct {
    const char* text;
    features_error error;
    const char* offending;
  } const cases[] = {
      {"place_lag,run_to_party", features_error::unknown_name, "run_to_party"},
      {"no_such_thing", features_error::unknown_name, "no_such_thing"},
      {"no_base_slice", features_error::unknown_name, "no_base_slice"},
      {"base_slice=-1", features_error::bad_value, "base_slice=-1"},
      {"base_slice=0", features_error::bad_value, "base_slice=0"},
      {"base_slice=4000000001", features_error::bad_value, "base_slice=4000000001"},
      {"base_slice=99999999999999999999999", features_error::bad_value, "base_slice=99999999999999999999999"},
      {"base_slice=", features_error::bad_value, "base_slice="},
      {"credit_granularity=1ms", features_error::bad_value, "credit_granularity=1ms"},
      {"delay=1", features_error::unknown_name, "delay=1"},
      {"=", features_error::unknown_name, "="},
      {"slice_min=200000000", features_error::inconsistent, "slice_min"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.text);
    const auto parsed = features::parse(c.text);
    CHECK_FALSE(parsed);
    CHECK(parsed.error == c.error);
    CHECK(parsed.offending == c.offending);
  }
}

TEST_CASE("features: presets by name") {
  for (const std::string_view name : features::preset_names()) {
    CHECK(features::preset(name).has_value());
  }
  CHECK(features::preset_names().size() == 5);
  CHECK_FALSE(features::preset("linux-2.6").has_value());
  CHECK(features::preset("linux-6.12")->window == window_rule::request);
  CHECK(features::preset("linux-6.12")->fork_preempt);
  CHECK(features::preset("runtime")->slice_min == 1'000);
}

}  // namespace lagom::test
