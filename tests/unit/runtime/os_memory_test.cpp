// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "child.hpp"
#include "os/limits.hpp"
#include "os/memory.hpp"
#include "os/thread.hpp"
#include "sanitizer.hpp"

namespace os = lagom::os;
using lagom::tests::run_in_child;
using os::guard_kind;

namespace {

// Address space for the length of a test.
class region {
 public:
  explicit region(std::size_t pages) : size_(pages * os::page_size()), base_(os::reserve(size_)) {
    REQUIRE(base_ != nullptr);
  }
  ~region() { os::release(base_, size_); }
  region(const region&) = delete;
  region& operator=(const region&) = delete;

  [[nodiscard]] std::byte* page(std::size_t index) const {
    return static_cast<std::byte*>(base_) + index * os::page_size();
  }

 private:
  std::size_t size_;
  void* base_;
};

class forced_mprotect {
 public:
  forced_mprotect() { os::force_mprotect_guards(true); }
  ~forced_mprotect() { os::force_mprotect_guards(false); }
};

// Tells without dying: the kernel refuses to read from a guard.
bool is_accessible(const std::byte* address) {
  int ends[2] = {};
  REQUIRE(::pipe(ends) == 0);
  const ssize_t written = ::write(ends[1], address, 1);
  const int error = errno;
  ::close(ends[0]);
  ::close(ends[1]);
  REQUIRE((written == 1 || error == EFAULT));
  return written == 1;
}

bool touching_kills(std::byte* address) {
  const auto result = run_in_child([address] {
    ::signal(SIGSEGV, SIG_DFL);
    *const_cast<volatile std::byte*>(address) = std::byte{1};
  });
  return result.killed_by(SIGSEGV);
}

std::size_t map_count() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<std::size_t>(
      std::count(std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>(), '\n'));
}

void check_guard(guard_kind expected) {
  const region memory(4);
  std::memset(memory.page(0), 7, 4 * os::page_size());
  const os::guard_result result = os::install_guard(memory.page(1), os::page_size());
  REQUIRE(result.kind == expected);
  CHECK(result.error == 0);
  CHECK(is_accessible(memory.page(0)));
  CHECK_FALSE(is_accessible(memory.page(1)));
  CHECK_FALSE(is_accessible(memory.page(2) - 1));
  CHECK(is_accessible(memory.page(2)));
  CHECK(touching_kills(memory.page(1)));
  CHECK_FALSE(touching_kills(memory.page(2)));

  CHECK(os::discard(memory.page(2), 2 * os::page_size()));
  CHECK(*memory.page(3) == std::byte{0});
  CHECK(*memory.page(0) == std::byte{7});
  CHECK_FALSE(is_accessible(memory.page(1)));

  os::remove_guard(memory.page(1), os::page_size(), result.kind);
  CHECK(is_accessible(memory.page(1)));
  CHECK(*memory.page(1) == std::byte{0});
}

}  // namespace

TEST_CASE("reserved memory is zero and writable, and comes back when released") {
  void* const base = os::reserve(16 * os::page_size());
  REQUIRE(base != nullptr);
  auto* const bytes = static_cast<std::byte*>(base);
  CHECK(bytes[5 * os::page_size()] == std::byte{0});
  bytes[5 * os::page_size()] = std::byte{1};
  os::release(base, 16 * os::page_size());
  CHECK_FALSE(is_accessible(bytes));
}

TEST_CASE("more address space than there is: nullptr and errno, nothing else") {
  errno = 0;
  CHECK(os::reserve(std::size_t{1} << 62) == nullptr);
  CHECK(errno == ENOMEM);
}

TEST_CASE("a guard as this kernel prefers it") { check_guard(os::preferred_guard()); }

TEST_CASE("a guard by mprotect") {
  const forced_mprotect forced;
  CHECK(os::preferred_guard() == guard_kind::mprotect);
  check_guard(guard_kind::mprotect);
}

TEST_CASE("lightweight guards do not split the mapping") {
  if (os::preferred_guard() != guard_kind::lightweight) {
    MESSAGE("this kernel has none");
    return;
  }
  const std::size_t before = map_count();
  const region memory(2000);
  const os::guard_result result = os::install_guards(memory.page(0), 2 * os::page_size(), os::page_size(), 1000);
  CHECK(result.kind == guard_kind::lightweight);
  CHECK(map_count() < before + 100);
}

TEST_CASE("many guards: every one is there, and nothing between them") {
  for (const bool force : {false, true}) {
    CAPTURE(force);
    os::force_mprotect_guards(force);
    constexpr std::size_t count = 600;  // more than two batches
    const region memory(3 * count);
    const os::guard_result result = os::install_guards(memory.page(0), 3 * os::page_size(), os::page_size(), count);
    os::force_mprotect_guards(false);
    REQUIRE(result.kind != guard_kind::failed);
    CHECK((!force || result.kind == guard_kind::mprotect));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      wrong += is_accessible(memory.page(3 * i)) ? 1 : 0;
      wrong += is_accessible(memory.page(3 * i + 1)) ? 0 : 1;
      wrong += is_accessible(memory.page(3 * i + 2)) ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("locked memory: the kernel refuses lightweight guards there, the other kind is used") {
  const region memory(4);
  // Not the function: the sanitizers turn that into nothing.
  if (::syscall(SYS_mlock, memory.page(0), 4 * os::page_size()) != 0) {
    MESSAGE("locking is not allowed here");
    return;
  }
  const os::guard_result result = os::install_guard(memory.page(1), os::page_size());
  CHECK(result.kind == guard_kind::mprotect);
  CHECK_FALSE(is_accessible(memory.page(1)));
  CHECK_FALSE(os::discard(memory.page(2), os::page_size()));
  ::syscall(SYS_munlock, memory.page(0), 4 * os::page_size());
}

TEST_CASE("running into the map limit is an error that says so, and leaves the process working") {
  if (lagom::tests::under_thread_sanitizer) {
    MESSAGE("the sanitizer itself dies at the limit");
    return;
  }
  const auto result = run_in_child([] {
    const forced_mprotect forced;
    const std::size_t limit = os::max_map_count().value_or(0);  // now: at the limit even reading a file may fail
    // Twice as many as the usual limit allows.
    constexpr std::size_t count = 70'000;
    const std::size_t size = 2 * count * os::page_size();
    void* const base = os::reserve(size);
    if (base == nullptr) {
      ::_exit(10);
    }
    const os::guard_result guards = os::install_guards(base, 2 * os::page_size(), os::page_size(), count);
    if (limit > 2 * count) {
      ::_exit(guards.kind == guard_kind::mprotect ? 0 : 11);
    }
    if (guards.kind != guard_kind::failed || guards.error != ENOMEM) {
      ::_exit(12);
    }
    os::release(base, size);
    void* const again = os::reserve(os::page_size());
    ::_exit(again == nullptr ? 13 : 0);
  });
  CAPTURE(result.status);
  CAPTURE(result.output);
  CHECK(result.exited_with(0));
}
