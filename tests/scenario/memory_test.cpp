// SPDX-License-Identifier: BSL-1.0
// Many stacks: up to the kernel's limit of mappings, and back. Memory that was used once is not kept for ever.
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "os/memory.hpp"
#include "scenario.hpp"
#include "unit/runtime/child.hpp"
#include "unit/runtime/sanitizer.hpp"

using namespace lagom::tests;

namespace {

std::size_t rss() {
  std::size_t whole = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> whole >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t map_count() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>(), '\n'));
}

constexpr std::size_t mebibyte = std::size_t{1} << 20;

// Sanitizers keep books of their own about memory and mappings.
bool settles(const std::function<bool()>& condition) { return under_sanitizer || becomes_true(condition, limit(20s)); }

// Spawns until `wanted` are parked or the system refuses; then the error must name the limit, and everything else must go on.
std::size_t fill_and_end(lagom::runtime& rt, std::size_t wanted) {
  lagom::event end;
  lagom::channel<int> question(0), answer(0);
  lagom::fiber old = rt.spawn([&] {
    for (int q = 0; question.receive(q) == lagom::channel_status::ok;) answer.send(q + 1);
  });
  std::vector<lagom::fiber> crowd;
  std::atomic<std::size_t> ended{0};
  std::string refusal;
  try {
    while (crowd.size() < wanted) {
      crowd.push_back(rt.spawn({.stack_size = 64 * 1024}, [&] {
        end.wait();
        ++ended;
      }));
    }
  } catch (const std::system_error& e) {
    CHECK(e.code() == std::errc::not_enough_memory);
    refusal = e.what();
  }
  if (crowd.size() < wanted) {
    CAPTURE(refusal);
    CHECK(refusal.find("vm.max_map_count") != std::string::npos);
  }
  // Others' mappings, with one between them that differs so that they cannot be merged.
  for (int i = 0; i < 20; ++i) {
    void* const other = ::mmap(nullptr, mebibyte, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(other != MAP_FAILED);
    if (other != MAP_FAILED) ::munmap(other, mebibyte);
  }
  int got = 0;
  CHECK(question.send(41) == lagom::channel_status::ok);
  CHECK(answer.receive(got) == lagom::channel_status::ok);
  CHECK(got == 42);
  question.close();
  end.set();
  for (lagom::fiber& f : crowd) f.join();
  old.join();
  CHECK(ended == crowd.size());
  return crowd.size();
}

}  // namespace

TEST_CASE("9: forty thousand guarded stacks, or an error that names the limit; all mappings come back") {
  const std::size_t wanted = under_thread_sanitizer ? 1'500 : static_cast<std::size_t>(rounds(40'000));
  lagom::runtime rt(scenario_options(2));
  fill_and_end(rt, 100);
  rt.trim();
  const std::size_t start = map_count();
  for (int turn = 0; turn < 3; ++turn) {
    const std::size_t had = fill_and_end(rt, wanted);
    if (lagom::os::preferred_guard() == lagom::os::guard_kind::lightweight) CHECK(had == wanted);
    rt.trim();
    CHECK(settles([&] { return map_count() <= start + 100; }));
  }
}

// Many users' kernel: two mappings per stack.
TEST_CASE("9: the same without lightweight guards") {
  if (under_sanitizer) return;  // their own mappings do not get on with the limit
  lagom::os::force_mprotect_guards(true);
  {
    lagom::runtime rt(scenario_options(2));
    const std::size_t start = map_count();
    std::size_t limit_of_maps = 0;
    std::ifstream("/proc/sys/vm/max_map_count") >> limit_of_maps;
    for (int turn = 0; turn < 3; ++turn) {
      const std::size_t had = fill_and_end(rt, 40'000);
      if (limit_of_maps < 80'000) CHECK(had < 40'000);
      CHECK(had > std::min<std::size_t>(limit_of_maps, 80'000) / 2 - 1'000);
      // Also unasked, when the runtime has been idle for a second.
      if (turn != 1) rt.trim();
      CHECK(settles([&] { return map_count() <= start + 100; }));
    }
  }
  lagom::os::force_mprotect_guards(false);
}

TEST_CASE("9: no address space: an error that says so, and those who live go on") {
  if (under_sanitizer) return;  // they need terabytes
  const child_result result = run_in_child([] {
    lagom::runtime rt(scenario_options(2));
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit room{(pages << 12) + 200 * mebibyte, RLIM_INFINITY};
    if (::setrlimit(RLIMIT_AS, &room) != 0) ::_exit(1);
    lagom::event end;
    std::vector<lagom::fiber> crowd;
    try {
      for (;;) crowd.push_back(rt.spawn([&] { end.wait(); }));
    } catch (const std::system_error& e) {
      static_cast<void>(!::write(STDERR_FILENO, e.what(), std::strlen(e.what())));
    }
    if (crowd.size() < 100) ::_exit(2);
    if (rt.post([] {})) ::_exit(3);
    end.set();
    for (lagom::fiber& f : crowd) f.join();
    // What they had is there again.
    ::_exit(rt.run([] { return lagom::spawn([] {}).joinable(); }) ? 5 : 4);
  });
  CAPTURE(result.output);
  CHECK(result.exited_with(5));
  CHECK(result.output.find("RLIMIT_AS") != std::string::npos);
}

// mlockall(): the kernel refuses lightweight guards in locked memory, and to take pages back.
TEST_CASE("34: all memory locked: fibers, guards and trim as ever") {
  if (under_sanitizer) return;  // their shadow would have to be locked too
  const child_result result = run_in_child([] {
    if (::mlockall(MCL_CURRENT | MCL_FUTURE) != 0) ::_exit(5);  // not allowed here: nothing to see
    lagom::runtime rt(scenario_options(2));
    std::atomic<int> ended{0};
    for (int turn = 0; turn < 3; ++turn) {
      std::vector<lagom::fiber> crowd;
      for (int i = 0; i < 100; ++i) {
        crowd.push_back(rt.spawn({.stack_size = 64 * 1024}, [&] {
          lagom::this_fiber::yield();
          ++ended;
        }));
      }
      for (lagom::fiber& f : crowd) f.join();
      rt.trim();
    }
    ::_exit(ended == 300 ? 5 : 1);
  });
  CAPTURE(result.output);
  CHECK(result.exited_with(5));
}

namespace {

[[gnu::noinline]] void touch_128_kib() {
  char room[128 * 1024];
  asm volatile("" ::"r"(room) : "memory");
  for (std::size_t i = 0; i < sizeof room; i += 1024) room[i] = 1;
  asm volatile("" ::"r"(room) : "memory");
}

}  // namespace

TEST_CASE("10a: stacks that were deep once do not keep their memory") {
  lagom::runtime rt(scenario_options(2));
  const std::size_t start = rss();
  const long bursts = count_of(4, 20), fibers = rounds(2'000);
  for (long burst = 0; burst < bursts; ++burst) {
    // All deep at the same time.
    lagom::latch deep(fibers);
    std::vector<lagom::fiber> crowd;
    for (long i = 0; i < fibers; ++i) {
      crowd.push_back(rt.spawn([&] {
        touch_128_kib();
        deep.arrive_and_wait();
      }));
    }
    deep.wait();
    if (!under_sanitizer) CHECK(rss() > static_cast<std::size_t>(fibers) * 128 * 1024);
    for (lagom::fiber& f : crowd) f.join();
    // Half of them unasked, when the runtime is idle.
    if (burst % 2 == 0) rt.trim();
    CHECK(settles([&] { return rss() <= start + 64 * mebibyte; }));
  }
}

namespace {

// The flags of the mapping that holds the address.
std::string flags_of_mapping(const void* address) {
  std::ifstream smaps("/proc/self/smaps");
  bool is_it = false;
  for (std::string line; std::getline(smaps, line);) {
    std::uintptr_t from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) {
      const auto at = reinterpret_cast<std::uintptr_t>(address);
      is_it = from <= at && at < to;
    } else if (is_it && line.starts_with("VmFlags:")) {
      return line + ' ';
    }
  }
  return {};
}

}  // namespace

// "always" would put 2 MiB under each of them at the first touch. Whether it is on or not is the system's; that it does not
// touch these mappings can be seen.
TEST_CASE("10b: large stacks of which one page is used are not made of huge pages") {
  lagom::runtime rt(scenario_options(2));
  const std::size_t start = rss();
  lagom::event end;
  lagom::latch parked(200);
  std::atomic<const void*> somewhere{nullptr};
  std::vector<lagom::fiber> crowd;
  for (int i = 0; i < 200; ++i) {
    crowd.push_back(rt.spawn({.stack_size = 2 * mebibyte}, [&] {
      volatile char local = 1;
      somewhere = const_cast<const char*>(&local);
      parked.count_down();
      end.wait();
    }));
  }
  parked.wait();
  if (!under_sanitizer) {
    CHECK(rss() <= start + 8 * mebibyte);
    if (std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled").good()) {
      CHECK(flags_of_mapping(somewhere).find(" nh ") != std::string::npos);
    }
  }
  end.set();
  for (lagom::fiber& f : crowd) f.join();
}
