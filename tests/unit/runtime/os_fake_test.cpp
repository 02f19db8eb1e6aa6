// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "os/clock.hpp"
#include "os/futex.hpp"
#include "os/poller.hpp"
#include "os/thread.hpp"
#include "support/fake_os/fake_os.hpp"

namespace fake = lagom::fake_os;
namespace os = lagom::os;
using os::interest;
using os::readiness;

TEST_CASE("this program is linked with the fake: time stands still until it is moved") {
  fake::reset();
  os::fast_clock clock;
  CHECK(clock.now() == fake::time_at_start);
  CHECK(clock.now() == fake::time_at_start);
  fake::advance(5);
  CHECK(clock.now() == fake::time_at_start + 5);
  CHECK(os::monotonic_ns() == fake::time_at_start + 5);
  CHECK_FALSE(clock.uses_counter());
  CHECK(fake::counts().clock_reads == 4);
  os::thread_sleep_until(fake::time_at_start + 1'000'000'000);
  CHECK(fake::now() == fake::time_at_start + 1'000'000'000);
}

TEST_CASE("a futex tells what it would have done") {
  fake::reset();
  std::atomic<std::uint32_t> word{0};
  CHECK(os::futex_wait(word, 1, os::never) == os::futex_result::changed);
  CHECK(os::futex_wait(word, 0, fake::now()) == os::futex_result::expired);
  CHECK(fake::counts().futex_waits == 0);
  fake::on_futex_sleep([&] { word.store(7); });
  CHECK(os::futex_wait(word, 0, os::never) == os::futex_result::woken);
  CHECK(word.load() == 7);
  CHECK(fake::counts().futex_waits == 1);
}

TEST_CASE("threads run when the test says so") {
  fake::reset();
  std::vector<std::string> ran;
  os::native_thread first("first", [&] { ran.push_back("first"); });
  os::native_thread second("second", [&] { ran.push_back("second"); });
  CHECK(fake::waiting_threads() == std::vector<std::string>{"first", "second"});
  fake::run_thread("second");
  CHECK(ran == std::vector<std::string>{"second"});
  first.join();
  second.join();
  CHECK(ran == std::vector<std::string>{"second", "first"});
  CHECK(fake::waiting_threads().empty());
}

TEST_CASE("a poller reports what the test made ready, as the real one would") {
  fake::reset();
  os::poller poller;
  std::array<os::poll_event, 4> out;
  REQUIRE_FALSE(poller.add(3, interest::readable | interest::one_shot, 30));
  REQUIRE_FALSE(poller.add(4, interest::writable | interest::edge, 40));
  CHECK(poller.add(3, interest::readable, 1) == std::errc::file_exists);
  CHECK(poller.wait(0, out) == 0);
  fake::set_ready(3, readiness::readable | readiness::writable);
  fake::set_ready(4, readiness::writable);
  REQUIRE(poller.wait(0, out) == 2);
  CHECK(out[0].token == 30);
  CHECK(out[0].ready == readiness::readable);
  CHECK(out[1].token == 40);
  CHECK(poller.wait(0, out) == 0);
  REQUIRE_FALSE(poller.modify(3, interest::readable | interest::one_shot, 31));
  fake::set_ready(4, readiness::writable);
  REQUIRE(poller.wait(0, std::span(out).first(1)) == 1);
  CHECK(out[0].token == 31);
  REQUIRE(poller.wait(0, out) == 1);
  CHECK(out[0].token == 40);
  REQUIRE_FALSE(poller.remove(4));
  CHECK(poller.remove(4) == std::errc::no_such_file_or_directory);
}

TEST_CASE("a wait is recorded; only one without news would have slept") {
  fake::reset();
  os::poller poller;
  std::array<os::poll_event, 1> out;
  int sleeps = 0;
  fake::on_sleep([&](const fake::wait_record& record) {
    ++sleeps;
    fake::advance(record.timeout_ns);
  });
  poller.notify();
  CHECK(poller.wait(-1, out) == 0);
  CHECK(sleeps == 0);
  CHECK(poller.wait(0, out) == 0);
  CHECK(sleeps == 0);
  CHECK(poller.wait(500, out) == 0);
  CHECK(sleeps == 1);
  CHECK(fake::now() == fake::time_at_start + 500);
  REQUIRE(fake::waits().size() == 3);
  CHECK(fake::waits()[0].notified);
  CHECK(fake::waits()[2].timeout_ns == 500);
  CHECK_FALSE(fake::waits()[2].notified);
}
