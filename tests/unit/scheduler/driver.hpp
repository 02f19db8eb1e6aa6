// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <cstdlib>

#include "scheduler/run_queue.hpp"

// A run queue with a clock that the test moves by hand.
namespace lagom::test {

using namespace lagom::scheduler;

inline constexpr nanos us = 1'000;
inline constexpr nanos ms = 1'000'000;
inline constexpr nanos day = nanos{86'400} * 1'000'000'000;

// Virtual nanoseconds, as a span of the virtual line.
constexpr virtual_span virtual_ns(std::int64_t n) { return {n * (std::int64_t{1} << virtual_time_bits)}; }

// LAGOM_TEST_SHORT: the short form, for sanitizers.
inline int times(int usual) { return std::getenv("LAGOM_TEST_SHORT") != nullptr ? usual / 10 : usual; }

class driver {
 public:
  explicit driver(const features& knobs = features::linux_7_1(), virtual_time start = {}) : queue(knobs, start) {}

  run_queue queue;
  nanos now = 0;

  bool spawn(entity& e) { return queue.enqueue(e, joining::spawned, now); }
  bool wake(entity& e) { return queue.enqueue(e, joining::woken, now); }
  bool attach(entity& e) { return queue.enqueue(e, joining::migrated, now); }
  void detach(entity& e) { queue.dequeue(e, leaving::migrated, now); }
  entity* pick() { return queue.pick(now); }
  entity* park() { return queue.park_and_pick(now); }
  entity* yield() { return queue.yield_and_pick(now); }
  entity* exit() {
    queue.dequeue(*queue.current(), leaving::exited, now);
    return pick();
  }
  // The current one runs; nobody is asked.
  bool run(nanos ran) {
    now += ran;
    return queue.charge(now);
  }
  // Runs, giving way whenever asked to, looking every `step`.
  void loop(nanos ran, nanos step) {
    for (nanos left = ran; left > 0; left -= step) {
      if (run(left < step ? left : step)) {
        pick();
      }
    }
  }
  virtual_span lag(const entity& e) const { return queue.virtual_now() - e.vruntime; }
};

inline void set_nice(entity& e, int nice) { e.share = weight_of_nice(nice); }

}  // namespace lagom::test
