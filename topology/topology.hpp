// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capacity.hpp"
#include "cpu_set.hpp"

// Who is near? Plain values, read once at start and then only looked at. A CPU is named in two ways: by its *index*, the
// place in machine::cpus (dense, neighbours are near), and by its *OS index* (sparse, what masks and files use).
namespace lagom::topology {

// "This CPU has none": no package, no memory node.
inline constexpr unsigned none = ~0u;

enum class level : std::uint8_t { core, cluster, llc, package, node, machine };
inline constexpr std::array<level, 6> levels{level::core,    level::cluster, level::llc,
                                              level::package, level::node,    level::machine};

// How far two CPUs are apart. The numbers are part of the interface: smaller is nearer.
enum class distance : std::uint8_t {
  same_core = 0,
  same_cluster = 1,  // share an L2, or are grouped below the last-level cache
  same_llc = 2,
  same_package = 3,  // or the same memory node
  near_node = 4,     // node distance up to 30, where 10 is local
  far_node = 5,      // work is not pulled this far, and stolen last
};
inline constexpr std::size_t distance_classes = 6;

struct cpu {
  unsigned os_index = 0;
  unsigned smt_index = 0;  // 0 for the first allowed CPU of its core
  unsigned core = 0;       // core, cluster and llc count from 0 over the whole machine
  unsigned cluster = 0;    // without clusters each core is its own
  unsigned llc = 0;        // without a shared cache, the CPUs of the package (or machine) that have none
  unsigned package = none;
  unsigned node = none;            // index into machine::nodes; the first one if several are local
  unsigned capacity = capacity_max;  // 1 … 1024: speed compared to the fastest kind of this machine
};

struct memory_node {
  unsigned os_index = 0;
  std::uint64_t bytes = 0;  // 0: unknown
  cpu_set cpus{};           // empty: memory without CPUs
};

struct domain {
  level at = level::machine;
  unsigned index = 0;       // among the domains of this level; the value of cpu::core, cpu::llc, …
  std::string sharing{};    // what the CPUs have in common: "Core", "L3", "Package", …
  cpu_set cpus{};           // OS indexes
};

struct machine {
  std::string source{};      // the text given to discover(); "this machine" for ""
  std::vector<cpu> cpus{};   // the allowed ones, in topology order; never empty
  std::vector<memory_node> nodes{};
  std::vector<domain> domains{};             // by level, then index
  std::vector<unsigned> node_distances{};    // nodes × nodes, row = from, 10 = local, 0 = unknown; empty: unknown
  capacity_source capacities = capacity_source::uniform;
  std::size_t online = 0;                    // CPUs of the whole machine, whether we may use them or not
  bool this_system = false;                  // false: made of a text or file, binding would mean nothing
  std::shared_ptr<void> binding_handle{};    // for bind.cpp; the rest of the world has no use for it

  // The index of an OS index, nothing if we may not use it. O(1) where the two are equal, else O(n).
  std::optional<std::size_t> index_of(std::size_t os_index) const noexcept;
  cpu_set allowed() const;
  // Throws std::out_of_range.
  const domain& domain_at(level at, unsigned index) const;
  std::size_t count(level at) const noexcept;
};

// 10 on the same node; what the machine says; else 10 within a package and 20 beyond.
unsigned node_distance(const machine& where, std::size_t from, std::size_t to) noexcept;
// Symmetric, O(1).
distance distance_between(const machine& where, std::size_t a, std::size_t b) noexcept;

// Which CPU each worker takes, as CPU indexes. First threads of all cores come before any second thread, faster kinds
// before slower, then packages and caches in order. More workers than CPUs: the order starts again.
struct worker_plan {
  std::vector<std::size_t> cpu_of_worker{};
  bool oversubscribed = false;
};
// Throws std::invalid_argument for no worker.
worker_plan plan_workers(const machine& where, std::size_t workers);

struct neighbour {
  std::size_t index = 0;  // of a CPU or of a worker
  distance at = distance::same_core;
};
// Everybody else, nearest first; equally near ones in order starting behind the asker, so that not all ask the same one
// first. O(n log n).
std::vector<neighbour> ring_of_cpu(const machine& where, std::size_t cpu);
std::vector<neighbour> ring_of_worker(const machine& where, const worker_plan& plan, std::size_t worker);

// Walks everything; for tests and for debug builds.
void check_invariants(const machine& where);

std::string_view to_string(level at) noexcept;
std::string_view to_string(distance at) noexcept;

}  // namespace lagom::topology
