// SPDX-License-Identifier: BSL-1.0
// The sockets of net:: alone, step by step: threads play the fibers, the test plays the workers.
#include "io/sockets.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "io_waist.hpp"
#include "os/clock.hpp"

namespace {

using ld::direction;
using ld::socket_handle;
using ld::socket_table;
using ld::socket_use;

constexpr std::int64_t millisecond = 1'000'000;
constexpr std::int64_t long_enough = 5'000 * millisecond;

struct worker_stand_in {
  ld::descriptor_table& table;
  os::poller poller;
  explicit worker_stand_in(ld::descriptor_table& t) : table(t) {}

  int serve(std::int64_t timeout = 0) {
    std::array<os::poll_event, 16> events;
    const int n = poller.wait(timeout, events);
    table.dispatch(std::span(events.data(), static_cast<std::size_t>(n)));
    return n;
  }
};

// One end in the table, the other bare.
struct socket_end {
  socket_handle handle;
  int descriptor = -1, peer = -1;

  socket_end() {
    std::array<int, 2> fd{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd.data()) == 0);
    REQUIRE(!socket_table::instance().insert(fd[0], handle));
    descriptor = fd[0];
    peer = fd[1];
  }
  ~socket_end() {
    socket_table::instance().close(handle);
    ::close(peer);
  }
  void say() const { REQUIRE(::write(peer, "x", 1) == 1); }
};

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

// A call in progress on its own thread, which is a fiber of the worker, or a plain thread.
class call {
 public:
  call(worker_stand_in* at, socket_handle handle, direction where, std::function<std::error_code(socket_use&)> body)
      : thread_([=, this] {
          if (at) home = {&at->poller, &at->table};
          parker_ = &self();
          {
            socket_use use(handle, where);
            result_ = use.error() ? use.error() : body(use);
          }
          ended_ = true;
        }) {}
  ~call() {
    if (thread_.joinable()) thread_.join();
  }
  std::error_code result() {
    thread_.join();
    return result_;
  }
  bool ended() const { return ended_; }
  void until_parked() const {
    while (!ended_ && !(parker_.load() && parker_.load()->is_parked)) std::this_thread::yield();
  }
  void stop() const { ld::unpark({parker_.load(), 1}, ld::wake::stopped); }

 private:
  std::atomic<test_parker*> parker_{nullptr};
  std::atomic<bool> ended_{false};
  std::error_code result_;
  std::thread thread_;  // last: it uses the others
};

std::error_code wait_once(socket_use& use) { return use.wait(); }

}  // namespace

TEST_CASE("an edge that comes when nobody waits is kept for the next wait, once") {
  ld::descriptor_table table;
  worker_stand_in worker(table);
  const socket_end s;
  call first(&worker, s.handle, direction::read, wait_once);  // registers
  first.until_parked();
  s.say();
  CHECK(worker.serve(long_enough) == 1);
  CHECK(!first.result());
  CHECK(worker.serve() == 0);
  s.say();
  CHECK(worker.serve(long_enough) == 1);
  CHECK(!call(&worker, s.handle, direction::read, wait_once).result());
  call third(&worker, s.handle, direction::read, wait_once);
  third.until_parked();
  CHECK(!third.ended());
  CHECK(table.anybody_waits());
  third.stop();
  CHECK(third.result() == lagom::errc::stopped);
  CHECK(!table.anybody_waits());
}

TEST_CASE("what is ready at the registration is an edge") {
  ld::descriptor_table table;
  worker_stand_in worker(table);
  const socket_end s;
  s.say();
  call reader(&worker, s.handle, direction::read, wait_once);
  reader.until_parked();
  CHECK(worker.serve(long_enough) == 1);
  CHECK(!reader.result());
  CHECK(!call(&worker, s.handle, direction::write, wait_once).result());  // reported along with it
}

TEST_CASE("an event of the last owner of an entry reaches nobody") {
  ld::descriptor_table table;
  worker_stand_in worker(table);
  std::array<os::poll_event, 4> events;
  socket_handle old;
  {
    const socket_end s;
    old = s.handle;
    call reader(&worker, s.handle, direction::read, wait_once);
    reader.until_parked();
    while (worker.serve(10 * millisecond) != 0) continue;  // it can be written to
    s.say();
    REQUIRE(worker.poller.wait(long_enough, events) == 1);  // fetched, not yet dispatched
    socket_table::instance().close(s.handle);
    CHECK(reader.result() == lagom::errc::closed);
  }
  const socket_end next;
  REQUIRE(next.handle.index == old.index);
  CHECK(next.handle.generation != old.generation);
  call reader(&worker, next.handle, direction::read, wait_once);
  reader.until_parked();
  table.dispatch(std::span(events.data(), 1));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(!reader.ended());
  CHECK(socket_use(old).error() == lagom::errc::closed);
  socket_table::instance().close(old);
  socket_table::instance().set_deadline(old, direction::read, 0);
  CHECK(!reader.ended());
  CHECK(socket_table::instance().is_open(next.handle));
  socket_table::instance().close(next.handle);
  CHECK(reader.result() == lagom::errc::closed);
}

TEST_CASE("close gives the descriptor back after the calls that are about to use it") {
  const socket_end s;
  {
    const socket_use visitor(s.handle);
    REQUIRE(!visitor.error());
    socket_table::instance().close(s.handle);
    CHECK(!socket_table::instance().is_open(s.handle));
    CHECK(socket_use(s.handle, direction::read).error() == lagom::errc::closed);
    CHECK(is_open(visitor.descriptor()));
  }
  CHECK(!is_open(s.descriptor));
}

TEST_CASE("a parked call does not keep the descriptor, a call that was just woken does") {
  ld::descriptor_table table;
  worker_stand_in worker(table);
  {
    const socket_end s;
    call reader(&worker, s.handle, direction::read, wait_once);
    reader.until_parked();
    socket_table::instance().close(s.handle);
    CHECK(!is_open(s.descriptor));
    CHECK(reader.result() == lagom::errc::closed);
  }
  const socket_end s;
  std::atomic<bool> woken{false}, go_on{false};
  call reader(&worker, s.handle, direction::read, [&](socket_use& use) {
    const std::error_code error = use.wait();
    woken = true;
    while (!go_on) std::this_thread::yield();
    CHECK(is_open(use.descriptor()));
    return error ? error : use.wait();
  });
  reader.until_parked();
  s.say();
  while (!woken) worker.serve(millisecond);
  socket_table::instance().close(s.handle);
  CHECK(is_open(s.descriptor));
  go_on = true;
  CHECK(reader.result() == lagom::errc::closed);
  CHECK(!is_open(s.descriptor));
}

TEST_CASE("a pause ends by time, deadline, close and stop, not by readiness, and readiness is kept") {
  ld::descriptor_table table;
  worker_stand_in worker(table);
  const socket_end s;
  const auto pause_for = [](std::int64_t ns) {
    return [ns](socket_use& use) { return use.pause(os::monotonic_ns() + ns); };
  };
  call pausing(&worker, s.handle, direction::read, pause_for(long_enough));
  pausing.until_parked();
  s.say();
  CHECK(worker.serve(long_enough) == 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  CHECK(!pausing.ended());
  pausing.stop();
  CHECK(pausing.result() == lagom::errc::stopped);
  CHECK(!call(&worker, s.handle, direction::read, pause_for(millisecond)).result());
  CHECK(!call(&worker, s.handle, direction::read, wait_once).result());  // the kept one
  for (worker_stand_in* at : {&worker, static_cast<worker_stand_in*>(nullptr)}) {
    const std::int64_t begin = os::monotonic_ns();
    CHECK(!call(at, s.handle, direction::read, pause_for(2 * millisecond)).result());
    CHECK(os::monotonic_ns() >= begin + 2 * millisecond);
    socket_table::instance().set_deadline(s.handle, direction::read, os::monotonic_ns() + 2 * millisecond);
    CHECK(call(at, s.handle, direction::read, pause_for(long_enough)).result() == std::errc::timed_out);
    socket_table::instance().set_deadline(s.handle, direction::read, ld::never);
  }
  call thread(nullptr, s.handle, direction::read, pause_for(long_enough));
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  CHECK(!thread.ended());
  socket_table::instance().close(s.handle);
  CHECK(thread.result() == lagom::errc::closed);
}

TEST_CASE("the registration stays where it was made, and follows who keeps waiting elsewhere") {
  ld::descriptor_table table;
  worker_stand_in first(table), second(table);
  const socket_end s;
  const auto wait_at = [&](worker_stand_in& where, worker_stand_in& seen_by, worker_stand_in& other) {
    call reader(&where, s.handle, direction::read, [](socket_use& use) {
      const std::error_code error = use.wait();
      char c = 0;
      CHECK(::read(use.descriptor(), &c, 1) == 1);
      return error;
    });
    reader.until_parked();
    while (seen_by.serve() != 0) continue;  // that it can be written to
    CHECK(!reader.ended());
    s.say();
    CHECK(seen_by.serve(long_enough) == 1);
    CHECK(other.serve() == 0);
    CHECK(!reader.result());
  };
  wait_at(first, first, second);
  for (int i = 0; i < 7; ++i) wait_at(second, first, second);
  wait_at(first, first, second);  // back again: the count starts anew
  for (int i = 0; i < 7; ++i) wait_at(second, first, second);
  wait_at(second, second, first);
  wait_at(first, second, first);
}

TEST_CASE("a socket that is waited for in another table leaves the first behind") {
  const socket_end s;
  ld::descriptor_table second_table;
  worker_stand_in second(second_table);
  {
    ld::descriptor_table first_table;
    worker_stand_in first(first_table);
    CHECK(first_table.serial() != second_table.serial());
    call reader(&first, s.handle, direction::read, wait_once);
    reader.until_parked();
    reader.stop();
    CHECK(reader.result() == lagom::errc::stopped);
    while (first.serve() != 0) continue;
    call again(&second, s.handle, direction::read, wait_once);
    again.until_parked();
    while (second.serve() != 0) continue;
    s.say();
    CHECK(first.serve(long_enough) == 1);  // reported there too, and dropped
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    CHECK(!again.ended());
    CHECK(second.serve(long_enough) == 1);
    CHECK(!again.result());
  }
  // The first table and its poller are gone.
  call reader(&second, s.handle, direction::read, wait_once);
  reader.until_parked();
  s.say();
  CHECK(second.serve(long_enough) == 1);
  CHECK(!reader.result());
}

TEST_CASE("release is refused while somebody is in a call, and forgets the registration") {
  ld::descriptor_table table;
  worker_stand_in worker(table);
  const socket_end s;
  call reader(&worker, s.handle, direction::read, wait_once);
  reader.until_parked();
  int descriptor = -1;
  CHECK(socket_table::instance().release(s.handle, descriptor) == std::errc::device_or_resource_busy);
  CHECK(!reader.ended());
  reader.stop();
  CHECK(reader.result() == lagom::errc::stopped);
  while (worker.serve() != 0) continue;
  home = {&worker.poller, &table};
  CHECK(!socket_table::instance().release(s.handle, descriptor));
  home = {};
  CHECK(descriptor == s.descriptor);
  CHECK(is_open(descriptor));
  s.say();
  CHECK(worker.serve() == 0);
  CHECK(socket_table::instance().release(s.handle, descriptor) == lagom::errc::closed);
  ::close(s.descriptor);
}
