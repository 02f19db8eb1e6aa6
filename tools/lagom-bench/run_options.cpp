// SPDX-License-Identifier: BSL-1.0
#include "run_options.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

namespace lagom::bench {

namespace {

constexpr std::uint64_t workers_max = 1024;
constexpr std::uint64_t fibers_max = 4'000'000;
constexpr std::uint64_t repeat_max = 10'000;
constexpr std::uint64_t slice_us_max = 100'000;
constexpr double seconds_max = 86'400;

/// CLI11 converts strings leniently ("-1" to a huge unsigned, "5x" to a vague text), so the string is judged here.
std::string judge_whole_number(const std::string& text, std::uint64_t least, std::uint64_t most) {
  const std::string wanted = fmt::format("a whole number from {} to {} is needed", least, most);
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range) {
    return fmt::format("{} is too large; {}", text, wanted);
  }
  if (error != std::errc{} || stop != end) {
    const bool negative = text.size() > 1 && text.front() == '-';
    return fmt::format("{} {}; {}", text, negative ? "is negative" : "is not a whole number", wanted);
  }
  if (value < least) {
    return fmt::format("{} is too small; {}", text, wanted);
  }
  if (value > most) {
    return fmt::format("{} is too large; {}", text, wanted);
  }
  return {};
}

std::string judge_seconds(const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  // The comparison is written so that not-a-number is refused too.
  if (error != std::errc{} || stop != end || !(value > 0 && value <= seconds_max)) {
    return fmt::format("{} is no span of time; a number of seconds above 0 and up to {} is needed", text, seconds_max);
  }
  return {};
}

}  // namespace

void add_seconds(CLI::App& command, const std::string& names, double& value, const std::string& meaning) {
  command.add_option(names, value, meaning)->type_name("S")->check(CLI::Validator(judge_seconds, ""))->group("Common");
}

std::vector<backend> run_options::backends() const {
  if (backend_name == "both") {
    return {backend::fiber, backend::thread};
  }
  return {backend_name == "thread" ? backend::thread : backend::fiber};
}

std::uint64_t run_options::repetitions() const {
  constexpr std::uint64_t for_a_ratio = 5;
  if (repeat != 0) {
    return repeat;
  }
  return backend_name == "both" ? for_a_ratio : 1;
}

bool run_options::includes(backend which) const {
  const auto all = backends();
  return std::find(all.begin(), all.end(), which) != all.end();
}

void add_number(CLI::App& command, const whole_number& option, std::uint64_t& value) {
  const auto judge = [least = option.least, most = option.most](const std::string& text) {
    return judge_whole_number(text, least, most);
  };
  command.add_option(std::string{option.names}, value, std::string{option.meaning})
      ->type_name("N")
      ->check(CLI::Validator(judge, ""));
}

void add_switch(CLI::App& command, std::string_view names, bool& value, std::string_view meaning,
                std::string_view conflicts_with) {
  auto* const added = command.add_flag(std::string{names}, value, std::string{meaning});
  if (!conflicts_with.empty()) {
    added->excludes(command.get_option(std::string{conflicts_with}));
  }
}

void add_common_options(CLI::App& command, run_options& options) {
  const auto add_common_number = [&](const whole_number& option, std::uint64_t& value) {
    add_number(command, option, value);
    command.get_option(std::string{option.names})->group("Common");
  };
  command.add_option("--backend", options.backend_name, "fiber, thread, or both (interleaved runs and their ratio)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"fiber", "thread", "both"}))
      ->group("Common");
  add_common_number(
      {"--workers", "fiber: workers of the runtime; thread: CPUs to use (1 pins to one CPU)", 0, workers_max},
      options.workers);
  add_common_number(
      {"--fibers", "fibers or threads alive at once, where the workload leaves the choice", 1, fibers_max},
      options.fibers);
  add_seconds(command, "--seconds", options.seconds,
              "length of each run; messaging, pipe: repeat until a backend has run this long");
  add_common_number({"--repeat", "runs per backend (default 1; 5 with --backend both)", 1, repeat_max}, options.repeat);
  add_common_number(
      {"--slice", "default slice of the runtime in microseconds (fiber only; 0: its own)", 0, slice_us_max},
      options.slice_us);
  command
      .add_option("--features", options.features, "scheduler knobs by name, for example no_run_to_parity (fiber only)")
      ->type_name("LIST")
      ->group("Common");
  add_seconds(command, "--timeout", options.timeout, "a single run longer than this counts as hung and failed");
  command.add_option("--plot", options.plot_file, "also write a picture of all runs (SVG)")
      ->type_name("FILE")
      ->group("Common");
  command.add_flag("--json", options.json, "print one JSON object instead of text")->group("Common");
  command.add_flag("--pin", options.pin, "bind each worker to a CPU (fiber only)")->group("Common");
}

}  // namespace lagom::bench
