// SPDX-License-Identifier: BSL-1.0
#include "plot.hpp"

#include <doctest/doctest.h>

#include <regex>

namespace lagom::bench {

namespace {

summary of_runs(backend which, const std::vector<double>& seconds) {
  std::vector<measurement> runs;
  for (const double each : seconds) {
    measurement m{};
    m.seconds = each;
    m.ops = 1'000'000;
    runs.push_back(m);
  }
  return summarize(which, runs);
}

/// All values of an attribute, in order.
std::vector<double> values_of(const std::string& svg, const std::string& attribute) {
  std::vector<double> out;
  const std::regex pattern(" " + attribute + "=\"(-?[0-9.]+)\"");
  for (auto found = std::sregex_iterator(svg.begin(), svg.end(), pattern); found != std::sregex_iterator(); ++found) {
    out.push_back(std::stod((*found)[1]));
  }
  return out;
}

}  // namespace

TEST_CASE("a dot per run, higher for slower, all on the page") {
  const auto svg = draw("yield", {of_runs(backend::fiber, {0.04, 0.05, 0.3}), of_runs(backend::thread, {0.5, 2.0})});
  const auto dots = values_of(svg, "cy");
  REQUIRE(dots.size() == 5);
  CHECK(dots[0] > dots[1]);
  CHECK(dots[1] > dots[2]);
  CHECK(dots[2] > dots[3]);
  CHECK(dots[3] > dots[4]);
  for (const double dot : dots) {
    CHECK(dot >= 40);
    CHECK(dot <= 350);
  }
  CHECK(svg.find("fiber: 50 ns, 3 runs") != std::string::npos);
  CHECK(svg.find("thread: 1250 ns, 2 runs") != std::string::npos);
}

TEST_CASE("one run, or runs that are all alike, still have an axis") {
  for (const double seconds : {1e-5, 0.001, 0.002, 0.00999, 123.0}) {
    CAPTURE(seconds);
    const auto svg = draw("pipe", {of_runs(backend::fiber, {seconds, seconds})});
    for (const double dot : values_of(svg, "cy")) {
      CHECK(dot >= 40);
      CHECK(dot <= 350);
    }
  }
}

}  // namespace lagom::bench
