// SPDX-License-Identifier: BSL-1.0
#include "describe.hpp"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <map>
#include <set>

namespace lagom::topology {
namespace {

std::string titled(std::string_view title) {
  constexpr std::size_t width = 10;
  std::string text(title);
  text.resize(std::max(width, text.size() + 1), ' ');
  return text;
}

// Keeps the order: "8-11,0,2".
std::string as_runs(const std::vector<unsigned>& numbers) {
  std::string text;
  for (std::size_t begin = 0; begin < numbers.size();) {
    std::size_t end = begin;
    while (end + 1 < numbers.size() && numbers[end + 1] == numbers[end] + 1) ++end;
    if (!text.empty()) text += ',';
    text += std::to_string(numbers[begin]);
    if (end != begin) text += '-' + std::to_string(numbers[end]);
    begin = end + 1;
  }
  return text;
}

// "10 (2 of 2 CPUs, 8 of 1)": how many domains of a level, by number of CPUs.
std::string by_size(const machine& where, level at) {
  std::map<std::size_t, std::size_t> domains_of_size;
  std::set<std::string> sharing;
  for (const auto& one : where.domains) {
    if (one.at != at) continue;
    ++domains_of_size[one.cpus.count()];
    sharing.insert(one.sharing);
  }
  if (domains_of_size.empty()) return "none";
  std::string sizes;
  for (const auto& [size, domains] : domains_of_size)
    sizes = std::to_string(domains) + " of " + std::to_string(size) + (sizes.empty() ? "" : ", " + sizes);
  std::string text = std::to_string(where.count(at)) + " (" + sizes;
  if (at == level::cluster || at == level::llc)
    for (const auto& name : sharing) text += "; " + name;
  return text + ")";
}

std::string describe_capacity(const machine& where) {
  std::map<unsigned, std::size_t, std::greater<>> cpus_of_capacity;
  for (const auto& one : where.cpus) ++cpus_of_capacity[one.capacity];
  std::string text;
  for (const auto& [capacity, cpus] : cpus_of_capacity)
    text += (text.empty() ? "" : ", ") + std::to_string(capacity) + " x " + std::to_string(cpus);
  return text + " (" + std::string(to_string(where.capacities)) + ")";
}

std::string describe_nodes(const machine& where) {
  std::string text;
  for (const auto& node : where.nodes) {
    text += titled("node " + std::to_string(node.os_index));
    text += node.cpus.empty() ? "no CPUs" : "CPUs " + node.cpus.to_string();
    if (node.bytes != 0) text += ", " + std::to_string(node.bytes >> 20) + " MiB";
    text += '\n';
  }
  if (where.node_distances.empty()) return text;
  const std::size_t nodes = where.nodes.size();
  for (std::size_t from = 0; from < nodes; ++from) {
    text += titled(from == 0 ? "distances" : "");
    for (std::size_t to = 0; to < nodes; ++to)
      text += (to == 0 ? "" : " ") + std::to_string(where.node_distances[from * nodes + to]);
    text += '\n';
  }
  return text;
}

// The cores of one last-level cache: "{0,8} {1,9}", "[{16} {18}] [{20} {22}]".
std::string describe_cores(const machine& where, unsigned llc) {
  std::string text;
  unsigned open_cluster = none;
  const auto close = [&] {
    if (open_cluster != none) text += ']';
    open_cluster = none;
  };
  std::set<unsigned> real_clusters;
  for (const auto& one : where.domains)
    if (one.at == level::cluster) real_clusters.insert(one.index);

  for (const auto& one : where.cpus) {
    if (one.llc != llc || one.smt_index != 0) continue;
    if (one.cluster != open_cluster) close();
    if (!text.empty()) text += ' ';
    if (one.cluster != open_cluster && real_clusters.count(one.cluster) != 0) {
      text += '[';
      open_cluster = one.cluster;
    }
    text += '{' + where.domain_at(level::core, one.core).cpus.to_string() + '}';
  }
  close();
  return text;
}

std::string describe_llcs(const machine& where) {
  std::string text;
  for (const auto& one : where.domains) {
    if (one.at != level::llc) continue;
    const auto first = where.index_of(one.cpus.first());
    assert(first.has_value());
    const cpu& member = where.cpus[*first];
    text += titled("llc " + std::to_string(one.index));
    if (member.package != none) text += "package " + std::to_string(member.package) + ", ";
    if (member.node != none) text += "node " + std::to_string(where.nodes[member.node].os_index) + ", ";
    text += "cores " + describe_cores(where, one.index) + '\n';
  }
  return text;
}

}  // namespace

std::string describe(const machine& where) {
  std::string text;
  const auto line = [&](std::string_view title, const std::string& rest) { text += titled(title) + rest + '\n'; };
  line("source", where.source);
  std::string cpus = std::to_string(where.cpus.size());
  if (where.online != where.cpus.size()) cpus += " of " + std::to_string(where.online);
  line("CPUs", cpus + ": " + where.allowed().to_string());
  line("cores", by_size(where, level::core));
  line("clusters", by_size(where, level::cluster));
  line("LLCs", by_size(where, level::llc));
  line("packages", by_size(where, level::package));
  line("capacity", describe_capacity(where));
  return text + describe_nodes(where) + describe_llcs(where);
}

std::string describe(const machine& where, const worker_plan& plan) {
  std::vector<unsigned> cpus;
  for (const auto index : plan.cpu_of_worker) cpus.push_back(where.cpus[index].os_index);
  return as_runs(cpus) + (plan.oversubscribed ? " (more workers than CPUs)" : "");
}

std::string describe_ring(const machine& where, std::size_t cpu) {
  std::string text;
  const std::vector<neighbour> ring = ring_of_cpu(where, cpu);
  for (auto begin = ring.begin(); begin != ring.end();) {
    const auto end = std::find_if(begin, ring.end(), [&](const neighbour& one) { return one.at != begin->at; });
    std::vector<unsigned> cpus;
    for (auto one = begin; one != end; ++one) cpus.push_back(where.cpus[one->index].os_index);
    text += (text.empty() ? "" : " | ") + std::string(to_string(begin->at)) + ' ' + as_runs(cpus);
    begin = end;
  }
  return text.empty() ? "nobody else" : text;
}

}  // namespace lagom::topology
