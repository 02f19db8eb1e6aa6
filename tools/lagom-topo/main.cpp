// SPDX-License-Identifier: BSL-1.0
// What the runtime sees of this machine, and where it would place its workers.

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "os/limits.hpp"
#include "topology/describe.hpp"
#include "topology/discover.hpp"

namespace {

namespace topology = lagom::topology;
using json = nlohmann::ordered_json;

constexpr std::size_t workers_max = 65536;
constexpr int usage_error = 2;

struct options {
  std::string spec{};
  std::size_t workers = 0;
  bool as_json = false;
  bool with_rings = false;
};

struct answer {
  topology::machine machine{};
  std::optional<double> quota{};
  topology::worker_plan plan{};
};

// The rule of the runtime: what is allowed, cut to what the control group pays for. A made-up machine has no quota.
std::size_t default_workers(const topology::machine& machine, std::optional<double> quota) {
  const std::size_t allowed = machine.cpus.size();
  if (!quota) return allowed;
  return std::clamp<std::size_t>(static_cast<std::size_t>(std::ceil(*quota)), 1, allowed);
}

answer look(const options& wanted) {
  answer found;
  found.machine = topology::discover(wanted.spec);
  if (found.machine.this_system) found.quota = lagom::os::cpu_quota();
  const std::size_t workers = wanted.workers != 0 ? wanted.workers : default_workers(found.machine, found.quota);
  found.plan = topology::plan_workers(found.machine, workers);
  return found;
}

json node_of(const topology::machine& machine, const topology::cpu& cpu) {
  return cpu.node == topology::none ? json(nullptr) : json(machine.nodes[cpu.node].os_index);
}

json package_of(const topology::cpu& cpu) {
  return cpu.package == topology::none ? json(nullptr) : json(cpu.package);
}

json cpus_as_json(const topology::machine& machine) {
  json cpus = json::array();
  for (const auto& cpu : machine.cpus)
    cpus.push_back({{"os_index", cpu.os_index},
                    {"core", cpu.core},
                    {"smt_index", cpu.smt_index},
                    {"cluster", cpu.cluster},
                    {"llc", cpu.llc},
                    {"package", package_of(cpu)},
                    {"node", node_of(machine, cpu)},
                    {"capacity", cpu.capacity}});
  return cpus;
}

json nodes_as_json(const topology::machine& machine) {
  json nodes = json::array();
  const std::size_t count = machine.nodes.size();
  for (std::size_t row = 0; row < count; ++row) {
    const auto& node = machine.nodes[row];
    json distances = json::array();
    for (std::size_t column = 0; column < count && !machine.node_distances.empty(); ++column)
      distances.push_back(machine.node_distances[row * count + column]);
    nodes.push_back({{"os_index", node.os_index},
                     {"bytes", node.bytes},
                     {"cpus", node.cpus.to_string()},
                     {"distances", distances}});
  }
  return nodes;
}

json domains_as_json(const topology::machine& machine) {
  json domains = json::array();
  for (const auto& domain : machine.domains)
    domains.push_back({{"level", topology::to_string(domain.at)},
                       {"index", domain.index},
                       {"sharing", domain.sharing},
                       {"cpus", domain.cpus.to_string()}});
  return domains;
}

json workers_as_json(const answer& found, bool with_rings) {
  json workers = json::array();
  for (std::size_t worker = 0; worker < found.plan.cpu_of_worker.size(); ++worker) {
    const auto& cpu = found.machine.cpus[found.plan.cpu_of_worker[worker]];
    json one = {{"worker", worker},
                {"cpu", cpu.os_index},
                {"core", cpu.core},
                {"llc", cpu.llc},
                {"package", package_of(cpu)},
                {"node", node_of(found.machine, cpu)}};
    if (with_rings) {
      json ring = json::array();
      for (const auto& near : topology::ring_of_worker(found.machine, found.plan, worker))
        ring.push_back({{"worker", near.index}, {"distance", static_cast<int>(near.at)}});
      one["ring"] = std::move(ring);
    }
    workers.push_back(std::move(one));
  }
  return workers;
}

void print_json(const answer& found, const options& wanted) {
  const topology::machine& machine = found.machine;
  json all = {{"source", machine.source},
              {"this_system", machine.this_system},
              {"online", machine.online},
              {"allowed", machine.allowed().to_string()},
              {"quota", found.quota ? json(*found.quota) : json(nullptr)},
              {"capacity_source", topology::to_string(machine.capacities)},
              {"cpus", cpus_as_json(machine)},
              {"nodes", nodes_as_json(machine)},
              {"domains", domains_as_json(machine)},
              {"oversubscribed", found.plan.oversubscribed},
              {"workers", workers_as_json(found, wanted.with_rings)}};
  // A file name need not be UTF-8.
  fmt::print("{}\n", all.dump(2, ' ', false, json::error_handler_t::replace));
}

std::string ring_text(const answer& found, std::size_t worker) {
  std::string text;
  std::optional<topology::distance> at;
  for (const auto& near : topology::ring_of_worker(found.machine, found.plan, worker)) {
    if (at != near.at) text += fmt::format("{}{}", at ? " | " : "", topology::to_string(near.at));
    at = near.at;
    text += fmt::format(" {}", near.index);
  }
  return text.empty() ? "nobody else" : text;
}

void print_text(const answer& found, const options& wanted) {
  const topology::machine& machine = found.machine;
  fmt::print("{}", topology::describe(machine));
  if (found.quota) fmt::print("quota     {:.2f} CPUs\n", *found.quota);
  const std::size_t workers = found.plan.cpu_of_worker.size();
  fmt::print("workers   {} on CPUs {}\n", workers, topology::describe(machine, found.plan));
  for (std::size_t worker = 0; worker < workers; ++worker) {
    const auto& cpu = machine.cpus[found.plan.cpu_of_worker[worker]];
    fmt::print("worker {:<3} CPU {}, core {}, llc {}", worker, cpu.os_index, cpu.core, cpu.llc);
    if (cpu.package != topology::none) fmt::print(", package {}", cpu.package);
    if (cpu.node != topology::none) fmt::print(", node {}", machine.nodes[cpu.node].os_index);
    if (wanted.with_rings) fmt::print("; near: {}", ring_text(found, worker));
    fmt::print("\n");
  }
}

// A full disk or a closed pipe is not success.
bool print(const answer& found, const options& wanted) {
  try {
    wanted.as_json ? print_json(found, wanted) : print_text(found, wanted);
  } catch (const std::exception& error) {
    fmt::print(stderr, "lagom-topo: standard output: {}\n", error.what());
    return false;
  }
  if (std::fflush(stdout) == 0) return true;
  std::perror("lagom-topo: standard output");
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  options wanted;
  CLI::App app{"Shows what lagom sees of this machine, and which CPU each worker would take.", "lagom-topo"};
  app.add_option("--topology", wanted.spec,
                 "synthetic:<hwloc string> or xml:<file of lstopo>; default: this machine, within affinity and cpuset");
  app.add_option("--workers", wanted.workers, "number of workers; 0: one per CPU, cut to the control group's quota")
      ->check(CLI::Range(std::size_t{0}, workers_max));
  app.add_flag("--json", wanted.as_json, "for programs");
  app.add_flag("--rings", wanted.with_rings, "for each worker the others, nearest first");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : usage_error;
  }
  answer found;
  try {
    found = look(wanted);
  } catch (const std::exception& error) {
    fmt::print(stderr, "lagom-topo: {}\n", error.what());
    return usage_error;
  }
  return print(found, wanted) ? 0 : 1;
}
