// SPDX-License-Identifier: BSL-1.0
// A process to be looked at: fibers in known functions and states. With an argument it stops for the debugger.
#include <lagom/lagom.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>

namespace {

std::atomic<bool> may_end{false};
lagom::mutex held;
lagom::event never_set;

__attribute__((noinline)) void wait_in_the_depth(int depth) {
  if (depth == 0) {
    const std::lock_guard hold(held);
  } else {
    wait_in_the_depth(depth - 1);
  }
  asm volatile("" ::: "memory");  // no tail call: each level has its frame
}

__attribute__((noinline)) void wait_for_an_event() {
  never_set.wait();
  asm volatile("" ::: "memory");
}

__attribute__((noinline)) void spin_until_told(std::atomic<bool>& running) {
  running = true;
  while (!may_end) asm volatile("" ::: "memory");
}

}  // namespace

int main(int argc, char**) {
  lagom::runtime rt({.workers = 2});
  held.lock();
  std::atomic<bool> running{false};
  lagom::attributes named;
  named.name = "digger";
  lagom::fiber digger = rt.spawn(named, [] { wait_in_the_depth(4); });
  named.name = "a name too long for the string to keep it in itself";
  lagom::fiber waiter = rt.spawn(named, [] { wait_for_an_event(); });
  named.name = "spinner";
  lagom::fiber spinner = rt.spawn(named, [&] { spin_until_told(running); });
  const auto is_parked = [](const lagom::fiber& f) { return f.stats().state == lagom::fiber_state::parked; };
  while (!running || !is_parked(digger) || !is_parked(waiter)) lagom::this_fiber::sleep_for(std::chrono::milliseconds(1));
  std::printf("ready %llu %llu %llu\n", static_cast<unsigned long long>(digger.get_id().value()),
              static_cast<unsigned long long>(waiter.get_id().value()), static_cast<unsigned long long>(spinner.get_id().value()));
  std::fflush(stdout);
  if (argc > 1) std::raise(SIGTRAP);
  may_end = true;
  held.unlock();
  never_set.set();
  digger.join();
  waiter.join();
  spinner.join();
  std::puts("done");
  return 0;
}
