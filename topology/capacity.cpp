// SPDX-License-Identifier: BSL-1.0
#include "capacity.hpp"

#include <algorithm>
#include <cassert>

namespace lagom::topology {
namespace {

using raw_values = std::vector<double>;

// Estimates, not measured by us. What they decide is only the order of the kinds and whether a busy fiber fits a CPU.
constexpr double atom_work_per_clock = 0.65;
constexpr double rank_step = 0.6;

// Empty unless `value` answers for every CPU: half a source would compare unlike things.
template <class Value>
raw_values from_every(const std::vector<capacity_facts>& facts, Value value) {
  raw_values raw;
  for (const auto& one : facts) {
    const std::optional<double> answer = value(one);
    if (!answer || !(*answer > 0)) return {};
    raw.push_back(*answer);
  }
  return raw;
}

std::optional<double> to_double(std::optional<unsigned> value) {
  return value ? std::optional<double>(*value) : std::nullopt;
}

raw_values from_kernel(const std::vector<capacity_facts>& facts) {
  return from_every(facts, [](const capacity_facts& one) { return to_double(one.linux_capacity); });
}

raw_values from_firmware(const std::vector<capacity_facts>& facts) {
  return from_every(facts, [](const capacity_facts& one) { return to_double(one.cppc_highest); });
}

raw_values from_kind(const std::vector<capacity_facts>& facts) {
  return from_every(facts, [](const capacity_facts& one) -> std::optional<double> {
    if (one.kind == core_kind::unknown || !one.frequency_max_mhz) return std::nullopt;
    return *one.frequency_max_mhz * (one.kind == core_kind::intel_atom ? atom_work_per_clock : 1.0);
  });
}

raw_values from_frequency(const std::vector<capacity_facts>& facts) {
  return from_every(facts, [](const capacity_facts& one) { return to_double(one.frequency_max_mhz); });
}

raw_values from_rank(const std::vector<capacity_facts>& facts) {
  unsigned top = 0;
  for (const auto& one : facts) top = std::max(top, one.rank.value_or(0));
  return from_every(facts, [top](const capacity_facts& one) -> std::optional<double> {
    if (!one.rank) return std::nullopt;
    double relative = 1.0;
    for (unsigned below = *one.rank; below < top; ++below) relative *= rank_step;
    return relative;
  });
}

std::vector<unsigned> scaled(const raw_values& raw) {
  const double top = *std::max_element(raw.begin(), raw.end());
  std::vector<unsigned> values;
  for (const double one : raw) {
    const auto rounded = static_cast<unsigned>(capacity_max * one / top + 0.5);
    values.push_back(std::clamp(rounded, 1u, capacity_max));
  }
  return values;
}

}  // namespace

capacities estimate_capacities(const std::vector<capacity_facts>& facts) {
  // What to make of values that do not differ by more than 5 %.
  enum class alike : std::uint8_t { ask_next, still_counts, all_are_equal };
  struct candidate {
    capacity_source source;
    raw_values (*read)(const std::vector<capacity_facts>&);
    alike if_alike;
  };
  static constexpr candidate candidates[] = {
      {capacity_source::kernel, from_kernel, alike::still_counts},
      {capacity_source::firmware, from_firmware, alike::ask_next},
      // Ranks are made of frequencies where there is nothing better: they would blow up a turbo bin to a kind.
      {capacity_source::kind_and_frequency, from_kind, alike::all_are_equal},
      {capacity_source::frequency, from_frequency, alike::all_are_equal},
      {capacity_source::rank, from_rank, alike::ask_next},
  };
  for (const auto& [source, read, if_alike] : candidates) {
    const raw_values raw = read(facts);
    if (raw.empty()) continue;
    const std::vector<unsigned> values = scaled(raw);
    assert(values.size() == facts.size());
    const unsigned least = *std::min_element(values.begin(), values.end());
    if (is_bigger(capacity_max, least)) return {source, values};
    if (if_alike == alike::still_counts && least != capacity_max) return {source, values};
    if (if_alike == alike::all_are_equal) break;
  }
  return {capacity_source::uniform, std::vector<unsigned>(facts.size(), capacity_max)};
}

std::string_view to_string(capacity_source source) noexcept {
  switch (source) {
    case capacity_source::uniform: return "all alike";
    case capacity_source::kernel: return "kernel";
    case capacity_source::firmware: return "firmware";
    case capacity_source::kind_and_frequency: return "kind and frequency";
    case capacity_source::frequency: return "frequency";
    case capacity_source::rank: return "rank";
  }
  return "?";
}

}  // namespace lagom::topology
