// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>
#include <signal.h>

#include <string>
#include <thread>
#include <utility>

#include "child.hpp"
#include "os/assert.hpp"

using lagom::tests::run_in_child;

namespace {

void die_quietly() { ::signal(SIGABRT, SIG_DFL); }

void write_dump(int fd) noexcept {
  [[maybe_unused]] const auto written = ::write(fd, "the dump\n", 9);
}

void fail_again(int fd) noexcept {
  write_dump(fd);
  LAGOM_ASSERT(fd == -1);
}

template <class First, class Second>
constexpr bool same_size() {
  return sizeof(First) == sizeof(Second);
}

}  // namespace

TEST_CASE("an assertion that holds does nothing and is evaluated once") {
  int evaluated = 0;
  LAGOM_ASSERT(++evaluated == 1);
  LAGOM_ASSERT_MSG(++evaluated == 2, "unused");
  LAGOM_ASSERT(same_size<int, unsigned>());
  CHECK(evaluated == 2);
}

TEST_CASE("a failed assertion names condition, message and place, then aborts") {
  const auto result = run_in_child([] {
    die_quietly();
    LAGOM_ASSERT_MSG(1 + 1 == 3, "arithmetic is broken");
  });
  CHECK(result.killed_by(SIGABRT));
  CHECK(result.output.find("lagom: assertion failed: 1 + 1 == 3 (arithmetic is broken), ") == 0);
  CHECK(result.output.find("os_assert_test.cpp:") != std::string::npos);
}

TEST_CASE("a message that is too long is cut, not written past the end") {
  const auto result = run_in_child([] {
    die_quietly();
    const std::string endless(5000, 'x');
    lagom::os::fatal(endless.c_str());
  });
  CHECK(result.killed_by(SIGABRT));
  CHECK(result.output.size() == 512);
  CHECK(result.output.back() == '\n');
}

TEST_CASE("the hook dumps once, even if it fails itself") {
  const auto result = run_in_child([] {
    die_quietly();
    lagom::os::set_fatal_hook(&fail_again);
    lagom::os::fatal("first");
  });
  CHECK(result.killed_by(SIGABRT));
  const std::size_t dump = result.output.find("the dump\n");
  REQUIRE(dump != std::string::npos);
  CHECK(result.output.find("the dump\n", dump + 1) == std::string::npos);
  CHECK(result.output.find("lagom: fatal: first\n") == 0);
  CHECK(result.output.find("fd == -1") != std::string::npos);
}

TEST_CASE("debug assertions are parsed but not evaluated outside checking builds") {
  int evaluated = 0;
  LAGOM_DEBUG_ASSERT(++evaluated > 0);
#if defined(LAGOM_CHECKING)
  CHECK(evaluated == 1);
#else
  CHECK(evaluated == 0);
#endif
}
