// SPDX-License-Identifier: BSL-1.0
#include "schedule.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "repetition.hpp"

namespace lagom::bench {

namespace {

/// One line on standard error that is overwritten and finally wiped; nothing when that is no terminal.
class progress_line {
 public:
  progress_line() : is_shown_(::isatty(STDERR_FILENO) == 1) {}
  ~progress_line() { say(""); }
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;

  void say(const std::string& text) const {
    if (is_shown_) {
      fmt::print(stderr, "\r{}\x1b[K", text);
      std::fflush(stderr);
    }
  }

 private:
  bool is_shown_;
};

struct runs_of_backend {
  backend which;
  std::vector<measurement> runs{};
  double seconds = 0;
};

void run_once(const workload& what, const run_options& options, runs_of_backend& of, const progress_line& progress) {
  const auto number = of.runs.size() + 1;
  const auto name = name_of(of.which);
  progress.say(fmt::format("{} run {} …", name, number));
  const auto outcome = repeat_in_child(
      [&] { return what.run(of.which, options); }, options.timeout,
      [&](double seconds) { progress.say(fmt::format("{} run {}, {:.0f} s …", name, number, seconds)); });
  if (!outcome.result) {
    throw run_failed(fmt::format("{} run {} failed: {}", name, number, outcome.failure));
  }
  of.runs.push_back(*outcome.result);
  of.seconds += outcome.result->seconds;
}

}  // namespace

std::vector<summary> run_all(const workload& what, const run_options& options) {
  const bool fill_time = options.seconds > 0 && what.meaning_of_seconds() == workload::length::of_all_runs;
  std::vector<runs_of_backend> all;
  for (const auto which : options.backends()) {
    all.push_back({which});
  }
  const progress_line progress;
  const auto is_done = [&](const runs_of_backend& of) {
    return of.runs.size() >= options.repetitions() && (!fill_time || of.seconds >= options.seconds);
  };
  while (!std::all_of(all.begin(), all.end(), is_done)) {
    const bool is_backward = all.front().runs.size() % 2 == 1;
    for (std::size_t place = 0; place < all.size(); ++place) {
      run_once(what, options, all[is_backward ? all.size() - 1 - place : place], progress);
    }
  }
  std::vector<summary> summaries;
  for (const auto& of : all) {
    summaries.push_back(summarize(of.which, of.runs));
  }
  return summaries;
}

}  // namespace lagom::bench
