// SPDX-License-Identifier: BSL-1.0
// Options and attributes: what is refused, with which words; the environment.
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/fixture.hpp"

using namespace lagom::tests;
using namespace std::string_literals;

namespace {

// Builds a runtime; the text of its refusal, or nothing.
std::string refusal(const lagom::runtime_options& options) {
  const std::size_t threads = thread_count();
  try {
    const lagom::runtime rt(options);
  } catch (const std::invalid_argument& e) {
    CHECK(thread_count() == threads);  // nothing was started
    return e.what();
  }
  return {};
}

std::string refusal(lagom::runtime& rt, const lagom::attributes& attrs) {
  std::string said, inside;
  try {
    rt.spawn(attrs, [] {}).join();
  } catch (const std::invalid_argument& e) {
    said = e.what();
  }
  rt.run([&] {
    try {
      lagom::spawn(attrs, [] {}).join();
    } catch (const std::invalid_argument& e) {
      inside = e.what();
    }
  });
  CHECK(said == inside);
  return said;
}

bool mentions(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words) {
    if (text.find(word) == std::string::npos) {
      MESSAGE("not in '", text, "': ", word);
      return false;
    }
  }
  return true;
}

class environment {
 public:
  environment(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  environment(const environment&) = delete;
  environment& operator=(const environment&) = delete;
  ~environment() { ::unsetenv(name_); }

 private:
  const char* name_;
};

}  // namespace

TEST_CASE("bad options are refused by name, with what would be right, and nothing is started") {
  const leak_check leaks;
  CHECK(mentions(refusal({.workers = 1'000'000'000}), {"workers", "1000000000", "4096"}));
  CHECK(mentions(refusal({.slice = -1ms}), {"slice", "-1000000", "1 us"}));
  CHECK(mentions(refusal({.slice = 999ns}), {"slice", "999"}));
  CHECK(mentions(refusal({.slice = 1s}), {"slice", "100 ms"}));
  CHECK(mentions(refusal({.stack_size = 1}), {"stack_size", "16 KiB"}));
  CHECK(mentions(refusal({.stack_size = ~std::size_t{0}}), {"stack_size"}));
  CHECK(mentions(refusal({.workers = 1, .rescue_after = -1ns}), {"rescue_after"}));
  CHECK(mentions(refusal({.workers = 1, .stuck_threshold = -1ns}), {"stuck_threshold"}));
  CHECK(mentions(refusal({.topology = "synthetic:nonsense"}), {"nonsense"}));
  CHECK(mentions(refusal({.topology = "gibberish"}), {"gibberish"}));
  // A file that is not there is the system's error.
  CHECK(error_of([] { lagom::runtime rt({.topology = "xml:/does/not/exist"}); }) == std::errc::no_such_file_or_directory);
  leaks.check();
}

TEST_CASE("features: an unknown name is refused with the names that exist") {
  std::string said;
  try {
    (void)lagom::features::parse("run_to_parity,no_such_knob");
  } catch (const std::invalid_argument& e) {
    said = e.what();
  }
  CHECK(mentions(said, {"no_such_knob", "run_to_parity", "delay_dequeue"}));
  CHECK_THROWS_AS((void)lagom::features::parse("base_slice=soon"), std::invalid_argument);
  CHECK(lagom::features::parse("").text().empty());
  lagom::runtime rt({.workers = 1, .features = lagom::features::parse("no_run_to_parity,delay_dequeue")});
  CHECK(rt.run([] { return 1; }) == 1);
}

TEST_CASE("bad attributes are refused by name and change nothing") {
  for_each_worker_count(
      [](lagom::runtime& rt) {
        CHECK(mentions(refusal(rt, {.slice = -1ns}), {"slice", "-1"}));
        CHECK(mentions(refusal(rt, {.slice = 200ms}), {"slice", "100 ms"}));
        CHECK(mentions(refusal(rt, {.stack_size = 1}), {"stack_size", "16 KiB"}));
        CHECK(mentions(refusal(rt, {.stack_size = ~std::size_t{0}}), {"stack_size"}));
        CHECK(mentions(refusal(rt, {.util_min = -1}), {"util_min", "1024"}));
        CHECK(mentions(refusal(rt, {.util_max = 1025}), {"util_max", "1024"}));
        CHECK(mentions(refusal(rt, {.util_min = 600, .util_max = 500}), {"util_min", "util_max"}));
        CHECK(mentions(refusal(rt, {.affinity = lagom::cpu_set::parse("60000")}), {"affinity", "60000"}));
        // Out of range nice is clamped, as Linux does.
        CHECK(refusal(rt, {.nice = -100}).empty());
        const int nice = rt.spawn({.nice = -100}, [] {}).get_attributes().nice;
        CHECK(nice == -20);
      },
      {}, {1, 4});
}

TEST_CASE("zero means the default everywhere") {
  lagom::runtime rt;
  CHECK(rt.workers() >= 1);
  CHECK(rt.stats().workers.size() == rt.workers());
  rt.spawn(lagom::attributes{}, [] {}).join();
}

TEST_CASE("the default slice can be set while running, within its range") {
  lagom::runtime rt({.workers = 2});
  rt.set_default_slice(2ms);
  CHECK_THROWS_AS(rt.set_default_slice(0ns), std::invalid_argument);
  CHECK_THROWS_AS(rt.set_default_slice(1s), std::invalid_argument);
  CHECK(rt.run([] { return 1; }) == 1);
}

TEST_CASE("the environment fills in what code leaves open") {
  {
    const environment e("LAGOM_WORKERS", "3");
    CHECK(lagom::runtime().workers() == 3);
    CHECK(lagom::runtime({.workers = 2}).workers() == 2);
  }
  for (const char* wrong : {"many", "-1", "3x", "99999999999999999999"}) {
    const environment e("LAGOM_WORKERS", wrong);
    CHECK(mentions(refusal({}), {"LAGOM_WORKERS", wrong}));
    CHECK(refusal({.workers = 1}).empty());
  }
  {
    const environment e("LAGOM_WORKERS", "1000000000");
    CHECK(mentions(refusal({}), {"workers"}));
  }
  {
    const environment e("LAGOM_WORKERS", "");
    CHECK(refusal({}).empty());
  }
  {
    const environment e("LAGOM_SLICE_US", "soon");
    CHECK(mentions(refusal({}), {"LAGOM_SLICE_US", "soon"}));
  }
  {
    const environment e("LAGOM_SLICE_US", "200000");
    CHECK(mentions(refusal({}), {"slice"}));
  }
  {
    const environment e("LAGOM_STACK_SIZE", "100");
    CHECK(mentions(refusal({}), {"stack_size"}));
  }
  {
    const environment e("LAGOM_FEATURES", "no_such_knob");
    CHECK(mentions(refusal({}), {"no_such_knob"}));
  }
  {
    const environment e("LAGOM_FEATURES", "no_run_to_parity");
    CHECK(refusal({}).empty());
  }
  {
    const environment e("LAGOM_STACK_SIZE", "65536");
    lagom::runtime rt;
    CHECK(rt.run([] { return 1; }) == 1);
  }
}
