// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "measurement.hpp"

namespace lagom::bench {

/// What became of one repetition: a measurement, or the reason why there is none.
struct repetition {
  std::optional<measurement> result{};
  std::string failure{};
};

/// Called about twice a second while a repetition runs, with the seconds since it began.
using heartbeat = std::function<void(double)>;

/// Runs `body` in a forked child and waits for it. A child per repetition gives each backend its own peak of memory
/// and turns a crash into an ordinary failure. `timeout` in seconds, 0 for none. The caller has no other threads.
/// Throws std::system_error when there is no child to be had.
repetition repeat_in_child(const std::function<measurement()>& body, double timeout, const heartbeat& beat);

/// Inside a child: reports the failure and ends the child at once, from any fiber or thread. For failures that leave
/// others waiting for a message that will never come.
[[noreturn]] void fail_run(std::string_view why) noexcept;

/// Runs `part` so that whatever it throws ends the repetition as failed.
template <class Part>
void or_fail_run(const Part& part) noexcept {
  try {
    part();
  } catch (const std::exception& e) {
    fail_run(e.what());
  } catch (...) {
    fail_run("an exception that is no std::exception");
  }
}

}  // namespace lagom::bench
