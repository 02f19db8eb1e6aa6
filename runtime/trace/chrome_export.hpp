// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <span>
#include <string>

#include "recorder.hpp"

namespace lagom::trace {

struct worker_recording {
  unsigned worker = 0;
  recording what;
};

struct chrome_names {
  std::function<std::string(std::uint64_t fiber)> fiber{};        // unset, or "": "fiber <id>"
  std::function<std::string(std::uint64_t reason)> wait_reason{};  // unset, or "": the number
};

// Writes the workers' recordings in the Trace Event format that Chrome's and Perfetto's viewers read: a track per
// worker, a bar per stint of a fiber (with how it ended) and per sleep of the worker, an instant for everything else.
// Times are microseconds since the earliest event, with nanoseconds as decimals. Errors: the stream's state.
void write_chrome_trace(std::ostream& out, std::span<const worker_recording> workers, const chrome_names& names = {});

}  // namespace lagom::trace
