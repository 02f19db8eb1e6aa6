// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "measurement.hpp"
#include "run_options.hpp"
#include "summary.hpp"

namespace lagom::bench {

/// One thing to measure. A workload knows its own options, its two forms and its lines of text; running it in
/// children, repeating, interleaving and the statistics are the same for all and live elsewhere.
class workload {
 public:
  workload() = default;
  workload(const workload&) = delete;
  workload& operator=(const workload&) = delete;
  virtual ~workload() = default;

  /// Declares the workload's own options.
  virtual void add_options(CLI::App& command) = 0;

  /// Throws usage_error for what cannot be run, before anything is started; fills in defaults.
  virtual void settle(run_options& options) = 0;

  /// One repetition, in a process of its own. Throws check_failed when the result is wrong.
  virtual measurement run(backend which, const run_options& options) const = 0;

  /// The options in force, for "params" of the JSON form.
  virtual nlohmann::json parameters(const run_options& options) const = 0;

  /// Text for a person: what ran and how long it took.
  virtual void print(const summary& results) const = 0;

  /// Whether --seconds is the length of a run (else the amount of work is fixed and runs are repeated).
  enum class length { of_run, of_all_runs };
  virtual length meaning_of_seconds() const = 0;
};

struct workload_entry {
  std::string_view name;
  std::string_view purpose;
  std::unique_ptr<workload> (*make)();
};

/// All workloads, in the order of the help text. A new workload is a file of its own and one line there.
const std::vector<workload_entry>& workloads();

std::unique_ptr<workload> make_messaging();
std::unique_ptr<workload> make_pipe();
std::unique_ptr<workload> make_yield();
std::unique_ptr<workload> make_spawn();

}  // namespace lagom::bench
