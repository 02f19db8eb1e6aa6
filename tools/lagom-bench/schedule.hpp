// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <stdexcept>
#include <vector>

#include "summary.hpp"
#include "workload.hpp"

namespace lagom::bench {

/// A repetition crashed, hung, or found its own result wrong.
class run_failed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// All repetitions of all backends asked for, each in a child of its own, interleaved (fiber, thread, thread, fiber, …)
/// so that a machine that drifts does so for both. Tells a terminal how far it is. Throws run_failed at the first
/// failure.
std::vector<summary> run_all(const workload& what, const run_options& options);

}  // namespace lagom::bench
