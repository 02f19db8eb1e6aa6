// SPDX-License-Identifier: BSL-1.0
#include "simulation.hpp"

#include <fmt/format.h>

#include <utility>

#include "topology/discover.hpp"

namespace lagom::sim {

namespace {

constexpr std::size_t most_workers = 8192;

void check_workers(const workload& what, std::size_t workers) {
  const auto judge = [&](const std::string& where, const std::vector<unsigned>& list) {
    for (const unsigned w : list) {
      if (w >= workers) {
        throw input_error(where, fmt::format("there is no worker {}; there are {}, counted from 0", w, workers));
      }
    }
  };
  for (std::size_t i = 0; i < what.fibers.size(); ++i) {
    const fiber_spec& f = what.fibers[i];
    judge(fmt::format("fibers[{}]", i), f.attributes.affinity);
    judge(fmt::format("fibers[{}]", i), f.home ? std::vector<unsigned>{*f.home} : std::vector<unsigned>{});
  }
  for (std::size_t i = 0; i < what.changes.size(); ++i) {
    judge(fmt::format("events[{}]", i), what.changes[i].affinity.value_or(std::vector<unsigned>{}));
  }
}

std::unique_ptr<placement> make_placement(const std::string& name, std::uint64_t seed) {
  if (name == "local") {
    return make_local_placement();
  }
  if (name == "selecting") {
    return make_selecting_placement(seed);
  }
  throw input_error("--placement", fmt::format("is \"{}\"; valid: selecting, local", name));
}

}  // namespace

simulation::simulation(run_request given) : given_(std::move(given)) {
  topology::machine machine = topology::discover(given_.topology);
  given_.workers = given_.workers == 0 ? machine.cpus.size() : given_.workers;
  if (given_.workers > most_workers) {
    throw input_error("--workers", fmt::format("is {}; at most {}", given_.workers, most_workers));
  }
  check_workers(given_.what, given_.workers);
  topology::worker_plan plan = topology::plan_workers(machine, given_.workers);
  all_ = std::make_unique<crew>(std::move(machine), std::move(plan), given_.how.knobs, given_.how.price);
  placement_ = make_placement(given_.placement, given_.how.seed);
  engine_ = std::make_unique<engine>(given_.what, *all_, given_.how, *placement_, given_.wrong);
  measures_ = std::make_unique<measures>(given_.what, *all_);
  engine_->watch(*measures_);
  checkers_ = std::make_unique<checkers>(given_.what, *all_, given_.how, given_.bounds);
  checkers_->attach(*engine_);
}

void simulation::run() {
  engine_->run();
  measures_->finish(*engine_);
  checkers_->finish();
}

}  // namespace lagom::sim
