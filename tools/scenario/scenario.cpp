// SPDX-License-Identifier: BSL-1.0
#include "scenario.hpp"

#include <algorithm>
#include <cmath>

namespace lagom::scenarios {

std::string_view name_of(policy which) {
  return which == policy::idle ? "idle" : which == policy::batch ? "batch" : "normal";
}

attributes event::applied_to(attributes before) const {
  return {policy.value_or(before.policy), nice.value_or(before.nice), slice.value_or(before.slice)};
}

unsigned scenario::cpus() const {
  int greatest = cpu;
  for (const auto& thread : threads) {
    greatest = std::max({greatest, thread.cpu, thread.home_cpu, thread.cpu == any_cpu ? 1 : 0});
  }
  return static_cast<unsigned>(greatest) + 1;
}

unsigned scenario::workers() const {
  const bool is_single = std::all_of(threads.begin(), threads.end(), [this](const thread_spec& thread) {
    return thread.cpu == threads.front().cpu && thread.cpu != any_cpu;
  });
  return is_single ? 1 : cpus();
}

void scenario::shorten(nanos measured) {
  duration = std::min(duration, warmup + measured);
  phases.erase(std::upper_bound(phases.begin(), phases.end(), duration), phases.end());
  events.erase(std::find_if(events.begin(), events.end(), [this](const event& change) { return change.at > duration; }),
               events.end());
}

void scenario::move_to_cpu(int other) {
  for (auto& thread : threads) {
    thread.cpu = thread.cpu == cpu ? other : thread.cpu;
    thread.home_cpu = thread.home_cpu == cpu ? other : thread.home_cpu;
  }
  cpu = other;
}

bool scenario::is_always_busy() const {
  return events.empty() && std::all_of(threads.begin(), threads.end(), [](const thread_spec& thread) {
           return thread.pattern.kind == pattern_kind::busy && thread.start == 0 && thread.cpu != any_cpu;
         });
}

scenario scaled(scenario what, double factor) {
  const auto scale = [factor](nanos& time) {
    // What is not nothing must not become nothing: a slice of 0 means the default, a period of 0 has no meaning.
    time = time == 0 ? 0 : std::max<nanos>(1, std::llround(static_cast<double>(time) * factor));
  };
  scale(what.duration);
  scale(what.warmup);
  for (auto& time : what.phases) {
    scale(time);
  }
  for (auto& change : what.events) {
    scale(change.at);
    if (change.slice) {
      scale(*change.slice);
    }
  }
  for (auto& thread : what.threads) {
    scale(thread.start);
    scale(thread.sched.slice);
    scale(thread.pattern.run);
    scale(thread.pattern.sleep);
    scale(thread.pattern.period);
  }
  return what;
}

}  // namespace lagom::scenarios
