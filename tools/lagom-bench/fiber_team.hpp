// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <lagom/lagom.hpp>

#include "machine.hpp"
#include "repetition.hpp"
#include "run_options.hpp"

namespace lagom::bench {

/// What the common options mean to a runtime. Throws std::invalid_argument for an unknown feature.
runtime_options runtime_options_for(const run_options& options);

/// Fiber switches of all workers since the runtime began.
std::uint64_t fiber_switches(const runtime& rt);

/// Measures `part` inside a fiber of `rt`: `part` calls the given `start` when the span is to begin.
template <class Part>
measurement measure_in_fiber(runtime& rt, const Part& part) {
  return rt.run([&] {
    std::uint64_t switches_before = fiber_switches(rt);
    stopwatch watch;
    part([&] {
      switches_before = fiber_switches(rt);
      watch = stopwatch{};
    });
    measurement span = watch.read();
    span.switches = fiber_switches(rt) - switches_before;
    return span;
  });
}

/// Runs `body(index)` on `count` fibers of a runtime of its own that start together: all ready, then go. The twin of
/// run_thread_team, with the same span. A failure in a fiber ends the repetition.
template <class Body>
measurement run_fiber_team(const run_options& options, std::size_t count, const Body& body) {
  runtime rt(runtime_options_for(options));
  return measure_in_fiber(rt, [&](const auto& start) {
    wait_group ready;
    event go;
    ready.add(static_cast<std::ptrdiff_t>(count));
    std::vector<fiber> fibers;
    fibers.reserve(count);
    or_fail_run([&] {
      for (std::size_t index = 0; index < count; ++index) {
        fibers.emplace_back([&body, &ready, &go, index] {
          ready.done();
          go.wait();
          or_fail_run([&] { body(index); });
        });
      }
    });
    ready.wait();
    start();
    go.set();
    for (auto& each : fibers) {
      each.join();
    }
  });
}

}  // namespace lagom::bench
