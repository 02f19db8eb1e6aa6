// SPDX-License-Identifier: BSL-1.0
// Stacks as their users see them: how much was used, memory of one's own, giving back.
#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <regex>
#include <sstream>

#include "sanitizer.hpp"
#include "support/fixture.hpp"

using namespace lagom::tests;

namespace {

constexpr std::size_t page = 4096;

// Writes to every page of `Size` bytes below the caller's frame.
template <std::size_t Size>
[[gnu::noinline]] void touch_stack() {
  char room[Size];
  asm volatile("" ::"r"(room) : "memory");
  for (std::size_t i = 0; i < Size; i += page) room[i] = 1;
  asm volatile("" ::"r"(room) : "memory");
}

std::size_t address_space_kb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmSize:")) return std::stoul(line.substr(7));
  }
  return 0;
}

}  // namespace

TEST_CASE("stack_used of a fiber that lives follows what it touches, seen by itself and by others") {
  lagom::runtime rt({.workers = 2, .measure_stacks = true});
  lagom::event touched, go_on;
  std::size_t before = 0, after = 0;
  lagom::fiber f = rt.spawn({.name = "digger", .stack_size = 512 * 1024}, [&] {
    before = lagom::this_fiber::stats().stack_used;
    touch_stack<300 * 1024>();
    after = lagom::this_fiber::stats().stack_used;
    touched.set();
    go_on.wait();
  });
  touched.wait();
  CHECK(before >= page);
  if (!under_sanitizer) CHECK(before <= 32 * 1024);
  CHECK(after >= 300 * 1024);
  if (!under_sanitizer) CHECK(after <= 340 * 1024);
  CHECK(f.stats().stack_used >= after);
  std::ostringstream dump;
  rt.dump(dump);
  if (!under_sanitizer) CHECK(std::regex_search(dump.str(), std::regex("'digger'.*, stack 3[0-9][0-9] of 5[0-9][0-9] KiB\n")));
  go_on.set();
  REQUIRE(becomes_true([&] { return f.stats().state == lagom::fiber_state::exited; }, limit(10s)));
  CHECK(f.stats().stack_used >= after);
  f.join();
  CHECK(rt.stats().stack_used_max >= after);
}

TEST_CASE("with measure_stacks a fiber does not answer for the one that had its stack before") {
  for (const bool measures : {true, false}) {
    lagom::runtime rt({.workers = 1, .measure_stacks = measures});
    std::size_t next = 0;
    rt.run([&] {
      lagom::spawn([] { touch_stack<200 * 1024>(); }).join();
      lagom::spawn([&] { next = lagom::this_fiber::stats().stack_used; }).join();
    });
    CHECK((next < 200 * 1024) == measures);
    CHECK((rt.stats().stack_used_max >= 200 * 1024) == measures);
  }
}

TEST_CASE("a stack of the user's, at odd addresses and sizes: used, and nothing around it") {
  lagom::runtime rt({.workers = 2});
  constexpr std::size_t margin = 256;
  constexpr std::size_t least = under_sanitizer ? 128 * 1024 : 16 * 1024;
  constexpr char canary = 0x5a;
  for (const std::size_t shift : {0, 1, 7, 8, 33, 63}) {
    for (const std::size_t size : {least, least + 1, least + 4095, std::size_t{200'003}}) {
      std::vector<char> memory(margin + shift + size + margin, canary);
      const std::span<std::byte> given(reinterpret_cast<std::byte*>(memory.data()) + margin + shift, size);
      verdict v;
      // Spawned from outside, from a fiber, and detached.
      const auto body = [&] {
        alignas(64) volatile char line[64] = {};
        const auto* at = reinterpret_cast<const std::byte*>(const_cast<const char*>(line));
        v.expect(reinterpret_cast<std::uintptr_t>(at) % 64 == 0, "a local with alignas(64) is not aligned");
        if (!under_sanitizer) v.expect(at >= given.data() && at + sizeof line <= given.data() + given.size(), "not on the given stack");
        v.expect(lagom::this_fiber::get_attributes().stack.data() == given.data(), "the attributes do not tell");
        lagom::this_fiber::yield();
        char text[64];
        v.expect(std::snprintf(text, sizeof text, "%.3f", 2.25) == 5, "printf of doubles");
      };
      lagom::attributes a;
      a.stack = given;
      rt.spawn(a, body).join();
      rt.run([&] { lagom::spawn(a, body).join(); });
      rt.spawn_detached(a, body);
      REQUIRE(rt.drain_for(limit(10s)));
      const auto untouched = [&](std::size_t from, std::size_t to) {
        return std::all_of(memory.begin() + static_cast<std::ptrdiff_t>(from), memory.begin() + static_cast<std::ptrdiff_t>(to), [](char c) { return c == canary; });
      };
      CHECK(untouched(0, margin + shift));
      CHECK(untouched(margin + shift + size, memory.size()));
      CHECK_FALSE(untouched(margin + shift, margin + shift + size));
    }
  }
}

TEST_CASE("a stack of the user's that cannot be one is refused") {
  lagom::runtime rt({.workers = 1});
  std::vector<std::byte> memory(64 * 1024);
  lagom::attributes a;
  a.stack = std::span(memory).first(16 * 1024 - 1);
  CHECK_THROWS_AS(rt.spawn_detached(a, [] {}), std::invalid_argument);
  a.stack = memory;
  a.stack_size = 64 * 1024;
  CHECK_THROWS_AS(rt.spawn_detached(a, [] {}), std::invalid_argument);
  a.stack_size = 0;
  const std::array<char, 60 * 1024> much{};
  CHECK_THROWS_AS(rt.spawn_detached(a, [much] { static_cast<void>(much); }), std::invalid_argument);
  CHECK(rt.stats().fibers == 0);
}

TEST_CASE("trim gives the addresses back, also what workers keep; a stack in use stays") {
  lagom::runtime rt({.workers = 2});
  lagom::event go_on;
  std::atomic<bool> intact{true};
  lagom::fiber stays = rt.spawn([&] {
    volatile char mark[4096];
    for (std::size_t i = 0; i < sizeof mark; ++i) mark[i] = static_cast<char>(i);
    go_on.wait();
    for (std::size_t i = 0; i < sizeof mark; ++i) {
      if (mark[i] != static_cast<char>(i)) intact = false;
    }
  });
  const long count = under_sanitizer ? 100 : 1000;
  const std::size_t start = address_space_kb();
  std::vector<lagom::fiber> many;
  lagom::event all;
  for (long i = 0; i < count; ++i) many.push_back(rt.spawn([&] { all.wait(); }));
  const std::size_t full = address_space_kb();
  REQUIRE(full > start + static_cast<std::size_t>(count) * 200);
  all.set();
  for (lagom::fiber& f : many) f.join();
  rt.trim();
  // Workers bring theirs in their own time.
  if (!under_sanitizer) CHECK(becomes_true([&] { return address_space_kb() < start + 20 * 1024; }, limit(10s)));
  go_on.set();
  stays.join();
  CHECK(intact);
  // And it goes on.
  CHECK(rt.run([] { return lagom::spawn([] {}).joinable(); }));
}
