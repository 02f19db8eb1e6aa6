// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace lagom::scenarios {

using nanos = std::int64_t;

enum class policy { normal, batch, idle };
std::string_view name_of(policy which);

/// What a thread does, again and again until the scenario ends.
enum class pattern_kind {
  busy,       ///< runs
  run_sleep,  ///< runs `run`, sleeps `sleep`
  periodic,   ///< wakes on a fixed grid of `period` and runs `run`
  pingpong,   ///< waits for the token, runs `run`, hands the token to `peer`
  yield,      ///< runs `run`, yields
  fork,       ///< each `period` starts a thread that runs `run`
};

struct pattern {
  pattern_kind kind = pattern_kind::busy;
  nanos run = 0;
  nanos sleep = 0;
  nanos period = 0;
  std::size_t peer = 0;     ///< pingpong: index of the partner
  bool has_token = false;   ///< pingpong: begins with the token
};

struct attributes {
  scenarios::policy policy = scenarios::policy::normal;
  int nice = 0;
  nanos slice = 0;  ///< 0: the default
};

inline constexpr int any_cpu = -1;

struct thread_spec {
  std::string name{};
  attributes sched{};
  int cpu = 0;       ///< any_cpu: free to run anywhere
  int home_cpu = 0;  ///< a free thread goes to sleep here, so that each wake-up has this previous CPU
  nanos start = 0;
  scenarios::pattern pattern{};
};

/// A change of attributes while the scenario runs. What is empty stays as it is.
struct event {
  nanos at = 0;
  std::size_t thread = 0;
  std::optional<scenarios::policy> policy{};
  std::optional<int> nice{};
  std::optional<nanos> slice{};

  attributes applied_to(attributes before) const;
};

/// A workload of a few threads (or fibers), to be run for a fixed time. Times count from its start.
struct scenario {
  std::string name{};
  nanos duration = 0;
  nanos warmup = 0;  ///< not measured
  int cpu = 0;       ///< of the threads that name none
  std::vector<nanos> phases{};  ///< CPU shares are also given between each two of these, in ascending order
  std::vector<event> events{};  ///< in order of time
  std::vector<thread_spec> threads{};

  /// One if all threads are bound to one CPU, whichever it is. Else the greatest CPU named plus one, and two at least.
  unsigned workers() const;
  /// Greatest CPU named plus one; at least two if a thread is free to run anywhere.
  unsigned cpus() const;
  /// Measures no longer than this. What would happen later does not.
  void shorten(nanos measured);
  /// Threads that were bound to `cpu` go to another one.
  void move_to_cpu(int other);
  /// All threads always want to run, from the start to the end, with the attributes they have at the start.
  bool is_always_busy() const;
};

/// Says which file, where in it, what is wrong and what would be right.
class input_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// `origin` names the text in messages.
scenario parse(std::string_view text, const std::string& origin);
scenario read_file(const std::string& path);

/// The same with every time multiplied by `factor` (custom slices too): a hundredth takes threads' times to fibers'.
scenario scaled(scenario what, double factor);

}  // namespace lagom::scenarios
