// SPDX-License-Identifier: BSL-1.0
// lagom-sim: the scheduling policy without fibers, threads or clocks.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include "commands.hpp"
#include "replay.hpp"
#include "scenario.hpp"

namespace lagom::sim {

void write_out(const std::string& file, std::string_view text) {
  if (file == "-") {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
      throw input_error("standard output", "cannot be written");
    }
    return;
  }
  std::ofstream out(file, std::ios::trunc | std::ios::binary);
  if (!(out << text << std::flush)) {
    throw input_error(file, fmt::format("cannot be written: {}", std::strerror(errno)));
  }
}

int guarded(const action& what) {
  try {
    return what();
  } catch (const input_error& e) {
    fmt::print(stderr, "lagom-sim: {}\n", e.what());
    return exit_usage;
  } catch (const std::exception& e) {
    fmt::print(stderr, "lagom-sim: {}\n", e.what());
    return exit_usage;
  }
}

namespace {

struct replay_options {
  std::string path;
  bool is_compact = false;
};

int replay_file(const replay_options& given) {
  const scenario what = read_scenario_file(given.path);
  std::string text;
  try {
    text = replay(what).run().dump(given.is_compact ? -1 : 1) + "\n";
  } catch (const input_error& e) {
    throw input_error(given.path, e.what());
  }
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    fmt::print(stderr, "lagom-sim: cannot write to standard output\n");
    return exit_failed;
  }
  return 0;
}

}  // namespace

void add_replay(CLI::App& app, action& chosen) {
  CLI::App* command = app.add_subcommand("replay", "run a scenario through one run queue and print every state and pick");
  const auto given = std::make_shared<replay_options>();
  command->add_option("FILE", given->path, "JSON: {\"config\": {...}, \"events\": [...]}, or a vector with \"input\"")
      ->required();
  command->add_flag("--compact", given->is_compact, "on one line");
  command->callback([given, &chosen] { chosen = [given] { return replay_file(*given); }; });
}

}  // namespace lagom::sim

int main(int argc, char** argv) {
  CLI::App app{"The scheduling policy of lagom without fibers, threads or clocks."};
  app.require_subcommand(1);
  lagom::sim::action chosen;
  lagom::sim::add_replay(app, chosen);
  lagom::sim::add_run(app, chosen);
  lagom::sim::add_scenario(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : lagom::sim::exit_usage;
  }
  return lagom::sim::guarded(chosen);
}
