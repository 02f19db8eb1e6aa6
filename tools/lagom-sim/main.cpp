// SPDX-License-Identifier: BSL-1.0
// lagom-sim: the scheduling policy without fibers, threads or clocks.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "replay.hpp"
#include "scenario.hpp"

namespace {

constexpr int usage_error = 2;

int replay_file(const std::string& path, bool is_compact) {
  lagom::sim::scenario what;
  try {
    what = lagom::sim::read_scenario_file(path);
  } catch (const lagom::sim::input_error& e) {
    fmt::print(stderr, "lagom-sim: {}\n", e.what());
    return usage_error;
  }
  try {
    const lagom::sim::json output = lagom::sim::replay(what).run();
    const std::string text = output.dump(is_compact ? -1 : 1) + "\n";
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
      fmt::print(stderr, "lagom-sim: cannot write to standard output\n");
      return 1;
    }
    return 0;
  } catch (const lagom::sim::input_error& e) {
    fmt::print(stderr, "lagom-sim: {}: {}\n", path, e.what());
    return usage_error;
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"The scheduling policy of lagom without fibers, threads or clocks."};
  app.require_subcommand(1);
  CLI::App* replay = app.add_subcommand("replay", "run a scenario through one run queue and print every state and pick");
  std::string path;
  bool is_compact = false;
  replay->add_option("FILE", path, "JSON: {\"config\": {...}, \"events\": [...]}, or a vector with \"input\"")->required();
  replay->add_flag("--compact", is_compact, "on one line");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : usage_error;
  }
  return replay_file(path, is_compact);
}
