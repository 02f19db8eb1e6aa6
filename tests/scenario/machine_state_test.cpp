// SPDX-License-Identifier: BSL-1.0
// What belongs to the fiber and what to the thread: worker identity, errno, floating-point modes, the stack's alignment.
// Chaos mode moves fibers to other workers at their switches.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cfenv>
#include <cstdio>
#include <cstring>

#include "scenario.hpp"

using namespace lagom::tests;

namespace {

lagom::runtime_options moving(unsigned workers) {
  lagom::runtime_options options = scenario_options(workers);
  options.chaos_seed = 42;
  return options;
}

thread_local unsigned index_of_thread = lagom::runtime::no_worker;

// Out of line and opaque: compilers keep the address of a thread-local across calls, which a switch may belie. The same goes for errno.
[[gnu::noinline]] unsigned real_index() {
  asm volatile("" ::: "memory");
  return index_of_thread;
}
[[gnu::noinline]] void set_errno(int value) {
  asm volatile("" ::: "memory");
  errno = value;
}
[[gnu::noinline]] int get_errno() {
  asm volatile("" ::: "memory");
  return errno;
}

void wait_somehow(long turn) {
  switch (turn % 8) {
    case 0: lagom::this_fiber::sleep_for(1us); break;
    case 1: lagom::this_fiber::checkpoint(); break;
    default: lagom::this_fiber::yield();
  }
}

void run_crowd(unsigned workers, int fibers_count, const std::function<void(int)>& body) {
  lagom::runtime rt(moving(workers));
  std::vector<lagom::fiber> fibers;
  for (int i = 0; i < fibers_count; ++i) fibers.push_back(rt.spawn([&, i] { body(i); }));
  for (lagom::fiber& f : fibers) f.join();
}

}  // namespace

TEST_CASE("7a: the worker's index is right before and after each switch, in one function") {
  for (const unsigned workers : {2u, 4u}) {
    verdict v;
    std::atomic<long> moves{0};
    lagom::runtime_options options = moving(workers);
    options.on_worker_start = [](unsigned i) { index_of_thread = i; };
    lagom::runtime rt(options);
    const long turns = count_of(10'000, 50'000);
    std::vector<lagom::fiber> fibers;
    for (int i = 0; i < 8; ++i) {
      fibers.push_back(rt.spawn([&] {
        for (long t = 0; t < turns; ++t) {
          const unsigned before = lagom::this_fiber::worker_index();
          v.expect(before == real_index(), "wrong index before a switch");
          wait_somehow(t);
          const unsigned after = lagom::this_fiber::worker_index();
          v.expect(after == real_index(), "wrong index after a switch");
          moves += before != after;
        }
      }));
    }
    for (lagom::fiber& f : fibers) f.join();
    // Or nothing has been tested.
    CHECK(moves.load() > turns / 10);
  }
}

TEST_CASE("7b: errno survives switches") {
  const long turns = count_of(200'000, 1'000'000) / 20;
  for (const unsigned workers : {1u, 4u}) {
    verdict v;
    run_crowd(workers, 20, [&](int i) {
      for (long t = 0; t < turns; ++t) {
        set_errno(1000 + i);
        wait_somehow(t);
        v.expect(get_errno() == 1000 + i, "errno is another fiber's");
      }
    });
  }
}

namespace {

// A pair of connected TCP sockets on the loopback.
struct connection {
  int near = -1, far = -1;
  connection() {
    const int listening = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(listening, reinterpret_cast<sockaddr*>(&address), size) == 0 && ::listen(listening, 1) == 0 &&
        ::getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
      near = ::socket(AF_INET, SOCK_STREAM, 0);
      if (::connect(near, reinterpret_cast<sockaddr*>(&address), size) == 0) far = ::accept(listening, nullptr, nullptr);
    }
    ::close(listening);
  }
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  ~connection() {
    ::close(near);
    reset();
  }
  // The peer goes with a reset.
  void reset() {
    if (far < 0) return;
    const linger at_once{1, 0};
    ::setsockopt(far, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    ::close(std::exchange(far, -1));
  }
};

[[gnu::noinline]] int error_of_recv(int fd) {
  char byte;
  return ::recv(fd, &byte, 1, MSG_DONTWAIT) < 0 ? get_errno() : 0;
}

std::error_code error_of_read(int fd) {
  std::byte byte{};
  std::error_code error;
  (void)lagom::io::read(fd, std::span(&byte, 1), error);
  return error;
}

}  // namespace

TEST_CASE("7b: failing calls on sockets report what happened") {
  verdict v;
  const long turns = count_of(100, 500);
  run_crowd(4, 8, [&](int) {
    for (long t = 0; t < turns; ++t) {
      connection c;
      if (!v.expect(c.far >= 0, "no connection")) return;
      v.expect(error_of_recv(c.near) == EAGAIN, "recv: not EAGAIN");
      wait_somehow(t);
      v.expect(error_of_recv(-1) == EBADF, "recv: not EBADF");
      v.expect(error_of_read(-1) == std::errc::bad_file_descriptor, "io::read: not EBADF");
      c.reset();
      const std::error_code after_wait = lagom::io::wait_readable(c.near, clock::now() + limit(5s));
      v.expect(!after_wait, "a reset does not end the wait");
      v.expect(error_of_read(c.near) == std::errc::connection_reset, "io::read: not ECONNRESET");
    }
  });
}

namespace {

// 1/3 in both widths; volatile, so that it is computed here and now, in the mode of the moment.
struct third {
  double narrow;
  long double wide;
  friend bool operator==(const third&, const third&) = default;
};
[[gnu::noinline]] third a_third() {
  volatile double one = 1, three = 3;
  volatile long double wide_one = 1, wide_three = 3;
  return {one / three, wide_one / wide_three};
}
[[gnu::noinline]] bool flushes_denormals() {
  volatile double tiny = 4.9e-324, half = 0.5;
  volatile double product = tiny * half;
  volatile double sum = tiny + 0.0;
  (void)product;
  return sum == 0.0;
}

#if defined(__x86_64__)
void flush_denormals() { __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040u); }
constexpr bool can_flush = true;
#else
void flush_denormals() {}
constexpr bool can_flush = false;
#endif

}  // namespace

TEST_CASE("7c: floating-point modes belong to the fiber; a new one has its spawner's") {
  const third usual = a_third();
  std::fesetround(FE_UPWARD);
  const third upward = a_third();
  std::fesetround(FE_TONEAREST);
  REQUIRE_FALSE(upward == usual);
  const long turns = count_of(20'000, 100'000);
  for (const unsigned workers : {1u, 4u}) {
    verdict v;
    run_crowd(workers, 8, [&](int i) {
      const bool special = i % 2 == 0;
      if (special) {
        std::fesetround(FE_UPWARD);
        flush_denormals();
      }
      for (long t = 0; t < turns; ++t) {
        v.expect(a_third() == (special ? upward : usual), "rounding of another fiber");
        if (can_flush) v.expect(flushes_denormals() == special, "denormals of another fiber");
        wait_somehow(t);
      }
      if (special) {
        third inherited{};
        lagom::spawn([&] { inherited = a_third(); }).join();
        v.expect(inherited == upward, "a new fiber has not its spawner's rounding");
      }
    });
    CHECK(a_third() == usual);
  }
}

TEST_CASE("7d: stacks of any size are aligned at entry") {
  lagom::runtime rt({.workers = 2});
  verdict v;
  for (std::size_t size = 16 * 1024; size <= 1024 * 1024; size += is_short() ? 99'991 : 9'973) {
    lagom::attributes a;
    a.stack_size = size;
    rt.spawn(a, [&] {
        alignas(64) volatile char line[64] = {};
        v.expect(reinterpret_cast<std::uintptr_t>(&line) % 64 == 0, "a local with alignas(64) is not aligned");
        // printf saves vector registers with aligned moves.
        char text[64];
        const int length = std::snprintf(text, sizeof text, "%.3f %.3f", 1.5, 2.25);
        v.expect(length == 11 && std::strcmp(text, "1.500 2.250") == 0, "printf of doubles");
      }).join();
  }
}
