// SPDX-License-Identifier: BSL-1.0
#include "topology/cpu_set.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

using lagom::topology::cpu_set;

namespace {

std::string complaint(const char* text) {
  try {
    cpu_set::parse(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

bool mentions(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("cpu_set reads and writes lists") {
  for (const char* text : {"", "0", "0-3,8", "1,3,5,7", "63-64", "4095", "0-1,63-65,127-128,2047"})
    CHECK(cpu_set::parse(text).to_string() == text);
  CHECK(cpu_set::parse("3,1,2,0").to_string() == "0-3");
  CHECK(cpu_set::parse("0-4,2-7").to_string() == "0-7");
  CHECK(cpu_set::parse("0,0,0-0").to_string() == "0");
  CHECK(cpu_set::parse(" 0-3 , 8\n").to_string() == "0-3,8");
  CHECK(cpu_set::parse("65535").count() == 1);
  CHECK(cpu_set::parse("0-65535").count() == 65536);
}

TEST_CASE("cpu_set says what is wrong with a list and what would be right") {
  for (const char* text : {"a", "1,b", "1-x", "-", "-1", "1-", "0x3", "1;2", "1 2", "1-2-3", "+1", "1.5", "0-10:2"})
    CHECK_MESSAGE(mentions(complaint(text), "is not a CPU number or range"), text << " -> " << complaint(text));
  for (const char* text : {"1,,2", ",", "1,", ",1", ", ,"})
    CHECK_MESSAGE(mentions(complaint(text), "is empty"), text << " -> " << complaint(text));
  for (const char* text : {"65536", "0-65536", "4000000000", "99999999999999999999999", "0-4000000000"})
    CHECK_MESSAGE(mentions(complaint(text), "beyond the highest CPU number, 65535"), text << " -> " << complaint(text));
  CHECK(mentions(complaint("0,7-3"), "\"7-3\" runs backwards"));
  CHECK(mentions(complaint("0,7-3"), "expected numbers and ranges such as \"0-3,8\""));
}

TEST_CASE("cpu_set compares by content, not by history") {
  cpu_set grown;
  CHECK(grown.empty());
  grown.set(3).set(2000);
  grown.clear(2000).clear(5).clear(99999);
  CHECK(grown == cpu_set::parse("3"));
  CHECK(grown.last() == 3);
  CHECK_FALSE(grown.test(2000));
  CHECK_FALSE(grown.test(cpu_set::npos));
  grown.clear(3);
  CHECK(grown.empty());
  CHECK(grown == cpu_set{});
  CHECK(grown.first() == cpu_set::npos);
  CHECK(grown.last() == cpu_set::npos);
  CHECK(grown.begin() == grown.end());
  CHECK_THROWS_AS(grown.set(cpu_set::limit), std::out_of_range);
  CHECK_THROWS_AS(grown.set(cpu_set::npos), std::out_of_range);
  CHECK(grown.empty());
}

TEST_CASE("cpu_set operations against std::set") {
  std::uint64_t state = 42;  // a fixed seed: splitmix64
  const auto random = [&state](std::uint64_t below) {
    std::uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<std::size_t>((z ^ (z >> 31)) % below);
  };
  for (int round = 0; round < 500; ++round) {
    const std::size_t range = round % 3 == 0 ? 70 : 3000;
    std::set<std::size_t> a, b;
    cpu_set x, y;
    for (std::size_t i = random(200); i > 0; --i) {
      const auto one = random(range), other = random(range);
      a.insert(one), x.set(one);
      b.insert(other), y.set(other);
    }
    for (std::size_t i = random(100); i > 0; --i) {
      const auto gone = random(range);
      a.erase(gone), x.clear(gone);
    }
    std::set<std::size_t> both, either = a;
    for (const auto cpu : b) {
      if (a.count(cpu) != 0) both.insert(cpu);
      either.insert(cpu);
    }
    const auto listed = [](const cpu_set& set) { return std::set<std::size_t>(set.begin(), set.end()); };
    REQUIRE(listed(x) == a);
    REQUIRE(x.count() == a.size());
    REQUIRE(listed(x & y) == both);
    REQUIRE(listed(x | y) == either);
    REQUIRE(x.intersects(y) == !both.empty());
    REQUIRE(x.is_subset_of(y) == (both.size() == a.size()));
    REQUIRE((x & y).is_subset_of(x));
    REQUIRE(x.is_subset_of(x | y));
    REQUIRE((x == y) == (a == b));
    REQUIRE(cpu_set::parse(x.to_string()) == x);
    REQUIRE(x.last() == (a.empty() ? cpu_set::npos : *a.rbegin()));
  }
}
