// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <memory>

#include "run_options.hpp"

namespace lagom::bench {

/// `lagom-bench scenario FILE`: runs a scenario of a few fibers or threads and reports what the scheduler did. No
/// workload: there is no operation whose cost would be measured.
class scenario_command {
 public:
  explicit scenario_command(CLI::App& parent);
  ~scenario_command();

  bool is_chosen() const;
  /// Prints the report. Throws usage_error, or what went wrong while it ran.
  void execute() const;

 private:
  struct choices;
  std::unique_ptr<choices> chosen_;
};

}  // namespace lagom::bench
