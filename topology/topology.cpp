// SPDX-License-Identifier: BSL-1.0
#include "topology.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <stdexcept>
#include <tuple>

namespace lagom::topology {
namespace {

constexpr unsigned local_distance = 10;
constexpr unsigned remote_distance = 20;
// Linux pulls woken work no farther than this.
constexpr unsigned near_node_max = 30;

unsigned index_at(const cpu& one, level at) noexcept {
  switch (at) {
    case level::core: return one.core;
    case level::cluster: return one.cluster;
    case level::llc: return one.llc;
    case level::package: return one.package;
    case level::node: return one.node;
    case level::machine: return 0;
  }
  return none;
}

bool share(unsigned a, unsigned b) noexcept { return a == b && a != none; }

// Kinds that differ by less than 5 % are one kind: a tier. Comparing pairs would not do, since "less than 5 %" is not
// transitive and a sort needs an order.
std::vector<unsigned> capacity_tiers(const machine& where) {
  std::vector<unsigned> falling;
  for (const auto& one : where.cpus) falling.push_back(one.capacity);
  std::sort(falling.begin(), falling.end(), std::greater<>());
  std::vector<unsigned> heads;
  for (const unsigned value : falling)
    if (heads.empty() || is_bigger(heads.back(), value)) heads.push_back(value);

  std::vector<unsigned> tiers;
  for (const auto& one : where.cpus) {
    unsigned tier = 0;
    while (is_bigger(heads[tier], one.capacity)) ++tier;
    tiers.push_back(tier);
  }
  return tiers;
}

struct ring_key {
  distance at;
  unsigned node_distance;
  std::size_t steps_ahead;
  std::size_t index;

  bool operator<(const ring_key& other) const noexcept {
    return std::tie(at, node_distance, steps_ahead, index) <
           std::tie(other.at, other.node_distance, other.steps_ahead, other.index);
  }
};

std::vector<neighbour> nearest_first(std::vector<ring_key> keys) {
  std::sort(keys.begin(), keys.end());
  std::vector<neighbour> ring;
  ring.reserve(keys.size());
  for (const auto& key : keys) ring.push_back({key.index, key.at});
  return ring;
}

ring_key key_of(const machine& where, std::size_t self, std::size_t other, std::size_t other_index) {
  const std::size_t n = where.cpus.size();
  return {distance_between(where, self, other), node_distance(where, self, other), (other + n - self) % n, other_index};
}

}  // namespace

std::optional<std::size_t> machine::index_of(std::size_t os_index) const noexcept {
  if (os_index < cpus.size() && cpus[os_index].os_index == os_index) return os_index;
  for (std::size_t index = 0; index < cpus.size(); ++index)
    if (cpus[index].os_index == os_index) return index;
  return std::nullopt;
}

cpu_set machine::allowed() const {
  cpu_set set;
  for (const auto& one : cpus) set.set(one.os_index);
  return set;
}

const domain& machine::domain_at(level at, unsigned index) const {
  for (const auto& one : domains)
    if (one.at == at && one.index == index) return one;
  throw std::out_of_range("topology: no " + std::string(to_string(at)) + " " + std::to_string(index));
}

std::size_t machine::count(level at) const noexcept {
  return static_cast<std::size_t>(
      std::count_if(domains.begin(), domains.end(), [at](const domain& one) { return one.at == at; }));
}

unsigned node_distance(const machine& where, std::size_t from, std::size_t to) noexcept {
  const cpu& a = where.cpus[from];
  const cpu& b = where.cpus[to];
  if (share(a.node, b.node)) return local_distance;
  if (a.node != none && b.node != none && !where.node_distances.empty()) {
    const unsigned stated = where.node_distances[a.node * where.nodes.size() + b.node];
    if (stated != 0) return stated;
  }
  return share(a.package, b.package) ? local_distance : remote_distance;
}

distance distance_between(const machine& where, std::size_t a, std::size_t b) noexcept {
  assert(a < where.cpus.size());
  assert(b < where.cpus.size());
  const cpu& one = where.cpus[a];
  const cpu& other = where.cpus[b];
  if (one.core == other.core) return distance::same_core;
  if (one.cluster == other.cluster) return distance::same_cluster;
  if (one.llc == other.llc) return distance::same_llc;
  if (share(one.node, other.node) || share(one.package, other.package)) return distance::same_package;
  // A machine may state another distance for the way back; the longer one counts for both.
  const unsigned apart = std::max(node_distance(where, a, b), node_distance(where, b, a));
  return apart <= near_node_max ? distance::near_node : distance::far_node;
}

worker_plan plan_workers(const machine& where, std::size_t workers) {
  if (workers == 0) throw std::invalid_argument("topology: a plan for 0 workers; expected at least 1");
  assert(!where.cpus.empty());
  const std::vector<unsigned> tiers = capacity_tiers(where);
  std::vector<std::size_t> order(where.cpus.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(where.cpus[a].smt_index, tiers[a]) < std::tie(where.cpus[b].smt_index, tiers[b]);
  });

  worker_plan plan;
  plan.oversubscribed = workers > order.size();
  plan.cpu_of_worker.reserve(workers);
  for (std::size_t worker = 0; worker < workers; ++worker)
    plan.cpu_of_worker.push_back(order[worker % order.size()]);
  return plan;
}

std::vector<neighbour> ring_of_cpu(const machine& where, std::size_t cpu) {
  std::vector<ring_key> keys;
  keys.reserve(where.cpus.size());
  for (std::size_t other = 0; other < where.cpus.size(); ++other)
    if (other != cpu) keys.push_back(key_of(where, cpu, other, other));
  return nearest_first(std::move(keys));
}

std::vector<neighbour> ring_of_worker(const machine& where, const worker_plan& plan, std::size_t worker) {
  const std::vector<std::size_t>& cpus = plan.cpu_of_worker;
  assert(worker < cpus.size());
  std::vector<ring_key> keys;
  keys.reserve(cpus.size());
  for (std::size_t other = 0; other < cpus.size(); ++other)
    if (other != worker) keys.push_back(key_of(where, cpus[worker], cpus[other], other));
  return nearest_first(std::move(keys));
}

void check_invariants(const machine& where) {
  assert(!where.cpus.empty());
  const std::size_t nodes = where.nodes.size();
  assert(where.node_distances.empty() || where.node_distances.size() == nodes * nodes);
  assert(where.allowed().count() == where.cpus.size());
  for (const level at : levels) {
    // The domains of a level are disjoint and hold exactly the CPUs that say so.
    cpu_set seen;
    for (const auto& one : where.domains) {
      if (one.at != at) continue;
      assert(!one.cpus.empty());
      assert(!one.cpus.intersects(seen));
      seen |= one.cpus;
    }
    for (const auto& one : where.cpus) {
      const unsigned index = index_at(one, at);
      if (index == none) continue;
      // Clusters of one core are left out of the list.
      assert(at == level::cluster || seen.test(one.os_index));
      assert(!seen.test(one.os_index) || where.domain_at(at, index).cpus.test(one.os_index));
    }
  }
  for (const auto& one : where.cpus) {
    assert(one.capacity >= 1);
    assert(one.capacity <= capacity_max);
    assert(one.node == none || one.node < nodes);
  }
}

std::string_view to_string(level at) noexcept {
  switch (at) {
    case level::core: return "core";
    case level::cluster: return "cluster";
    case level::llc: return "llc";
    case level::package: return "package";
    case level::node: return "node";
    case level::machine: return "machine";
  }
  return "?";
}

std::string_view to_string(distance at) noexcept {
  switch (at) {
    case distance::same_core: return "same core";
    case distance::same_cluster: return "same cluster";
    case distance::same_llc: return "same llc";
    case distance::same_package: return "same package";
    case distance::near_node: return "near node";
    case distance::far_node: return "far node";
  }
  return "?";
}

}  // namespace lagom::topology
