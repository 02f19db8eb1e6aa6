// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

// How fast is a CPU compared to the fastest of its machine? No source says it on all machines, and some say it wrongly:
// this file holds the order in which they are believed.
namespace lagom::topology {

inline constexpr unsigned capacity_max = 1024;

enum class core_kind : std::uint8_t { unknown, intel_core, intel_atom };

// What is known of one CPU; absent is "the machine does not say".
struct capacity_facts {
  std::optional<unsigned> linux_capacity{};
  std::optional<unsigned> cppc_highest{};
  std::optional<unsigned> frequency_max_mhz{};
  std::optional<unsigned> rank{};  // 0 is the most economical kind; a rank, never a ratio
  core_kind kind = core_kind::unknown;
};

enum class capacity_source : std::uint8_t { uniform, kernel, firmware, kind_and_frequency, frequency, rank };

struct capacities {
  capacity_source source = capacity_source::uniform;
  std::vector<unsigned> values{};  // one for each CPU, 1 … 1024
};

// The first source that every CPU has and that makes a difference:
//  kernel               Linux' cpu_capacity; on x86 it is 1024 everywhere, so equal values say nothing
//  firmware             ACPI CPPC highest performance, if it spreads by more than 5 %
//  kind_and_frequency   maximum frequency times work per clock of the kind (an Atom core: 0.65 of a Core); within 5 %
//                       all are taken for equal
//  frequency            maximum frequency; same
//  rank                 each rank down: 0.6 of the one above
//  uniform              1024
capacities estimate_capacities(const std::vector<capacity_facts>& facts);

// Linux' comparison: less than 5 % does not count (turbo bins differ by as much among equal cores).
constexpr bool is_bigger(unsigned a, unsigned b) noexcept { return std::uint64_t{a} * 1024 > std::uint64_t{b} * 1078; }

std::string_view to_string(capacity_source source) noexcept;

}  // namespace lagom::topology
