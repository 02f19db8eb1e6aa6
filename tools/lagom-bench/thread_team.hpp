// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <latch>
#include <thread>
#include <vector>

#include "machine.hpp"
#include "repetition.hpp"

namespace lagom::bench {

/// Runs `body(index)` on `count` OS threads that start together: all ready, then go, as perf's messaging does.
/// The span is from "go" until the last one is done. A failure in a thread ends the repetition.
template <class Body>
measurement run_thread_team(std::size_t count, const Body& body) {
  std::latch ready(static_cast<std::ptrdiff_t>(count));
  std::latch go(1);
  std::vector<std::thread> threads;
  threads.reserve(count);
  or_fail_run([&] {
    for (std::size_t index = 0; index < count; ++index) {
      threads.emplace_back([&body, &ready, &go, index] {
        ready.count_down();
        go.wait();
        or_fail_run([&] { body(index); });
      });
    }
  });
  ready.wait();
  const stopwatch watch;
  go.count_down();
  for (auto& thread : threads) {
    thread.join();
  }
  measurement span = watch.read();
  span.switches = span.os_switches;
  return span;
}

}  // namespace lagom::bench
