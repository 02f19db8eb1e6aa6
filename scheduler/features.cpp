// SPDX-License-Identifier: BSL-1.0
#include "features.hpp"

#include <array>
#include <cstddef>

#include "entity.hpp"

namespace lagom::scheduler {

namespace {

struct flag_name {
  std::string_view name;
  bool features::*field;
};
constexpr flag_name flags[] = {
    {"place_lag", &features::place_lag},
    {"place_deadline_initial", &features::place_deadline_initial},
    {"place_rel_deadline", &features::place_rel_deadline},
    {"run_to_parity", &features::run_to_parity},
    {"preempt_short", &features::preempt_short},
    {"wakeup_preemption", &features::wakeup_preemption},
    {"pick_buddy", &features::pick_buddy},
    {"repick_protect", &features::repick_protect},
    {"fork_preempt", &features::fork_preempt},
    {"delay_dequeue", &features::delay_dequeue},
    {"delay_zero", &features::delay_zero},
    {"repay_asleep", &features::repay_asleep},
    {"cut_idle_credit", &features::cut_idle_credit},
};

struct duration_name {
  std::string_view name;
  nanos features::*field;
  nanos least;
  nanos most;
  std::string_view values;
};
constexpr nanos longest_overrun = 1'000'000'000'000;
constexpr std::string_view slice_values = "nanoseconds, 1 to 4000000000";
constexpr std::string_view stint_values = "nanoseconds, 0 to 4000000000";
constexpr std::string_view overrun_values = "nanoseconds, 0 to 1000000000000";
static_assert(slice_limit == 4'000'000'000);
constexpr duration_name durations[] = {
    {"base_slice", &features::base_slice, 1, slice_limit, slice_values},
    {"norm_slice", &features::norm_slice, 1, slice_limit, slice_values},
    {"credit_granularity", &features::credit_granularity, 0, longest_overrun, overrun_values},
    {"debt_granularity", &features::debt_granularity, 0, longest_overrun, overrun_values},
    {"wakeup_granularity", &features::wakeup_granularity, 0, longest_overrun, overrun_values},
    {"yield_granularity", &features::yield_granularity, 0, longest_overrun, overrun_values},
    {"idle_stint", &features::idle_stint, 0, slice_limit, stint_values},
    {"slice_min", &features::slice_min, 1, slice_limit, slice_values},
    {"slice_max", &features::slice_max, 1, slice_limit, slice_values},
};

// The enumerated knobs: position in `values` is the enumerator.
struct choice_name {
  std::string_view name;
  std::string_view values;
  void (*set)(features&, unsigned);
};
constexpr choice_name choices[] = {
    {"window", "request, shortest_slice, eligibility",
     [](features& f, unsigned n) { f.window = static_cast<window_rule>(n); }},
    {"lag_limit", "own2x, max_slice", [](features& f, unsigned n) { f.lag_limit = static_cast<lag_rule>(n); }},
    {"yield_mode", "deadline, forfeit_always, forfeit",
     [](features& f, unsigned n) { f.yield_mode = static_cast<yield_rule>(n); }},
    {"delayed_lag", "zero, mono", [](features& f, unsigned n) { f.delayed_lag = static_cast<delayed_rule>(n); }},
};

struct preset_name {
  std::string_view name;
  features (*make)();
};
constexpr preset_name presets[] = {
    {"linux-7.1", [] { return features::linux_7_1(); }},     {"linux-6.18", [] { return features::linux_6_18(); }},
    {"linux-6.12", [] { return features::linux_6_12(); }},   {"tip-2026-09", [] { return features::tip_2026_09(); }},
    {"runtime", [] { return features::runtime(); }},
};

constexpr std::string_view preset_list[] = {presets[0].name, presets[1].name, presets[2].name, presets[3].name,
                                            presets[4].name};
static_assert(sizeof preset_list / sizeof preset_list[0] == sizeof presets / sizeof presets[0]);

// "a, b, c" of all tables, put together by the compiler.
template <class Append>
constexpr void each_name(Append append) {
  for (const auto& f : flags) append(f.name);
  for (const auto& d : durations) append(d.name);
  for (const auto& c : choices) append(c.name);
}
constexpr std::string_view separator = ", ";
constexpr std::size_t names_size() {
  std::size_t size = 0;
  each_name([&](std::string_view name) { size += name.size() + separator.size(); });
  return size - separator.size();
}
constexpr std::array<char, names_size()> joined_names = [] {
  std::array<char, names_size()> text{};
  std::size_t at = 0;
  each_name([&](std::string_view name) {
    if (at != 0) {
      for (char c : separator) text[at++] = c;
    }
    for (char c : name) text[at++] = c;
  });
  return text;
}();

// Not operator==: that may compile to library calls this folder does without.
constexpr bool is_same(std::string_view a, std::string_view b) {
  std::size_t at = 0;
  while (at < a.size() && at < b.size() && a[at] == b[at]) ++at;
  return at == a.size() && at == b.size();
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Takes what stands before the separator off the text.
std::string_view next_part(std::string_view& text, char between) {
  std::size_t end = 0;
  while (end < text.size() && text[end] != between) ++end;
  const std::string_view part = trimmed({text.data(), end});
  text.remove_prefix(end < text.size() ? end + 1 : end);
  return part;
}

std::optional<nanos> number(std::string_view text) {
  nanos value = 0;
  for (char c : text) {
    if (c < '0' || c > '9' || value > longest_overrun) {
      return std::nullopt;
    }
    value = value * 10 + (c - '0');
  }
  return text.empty() ? std::nullopt : std::optional(value);
}

features_error set_flag(features& f, std::string_view name) {
  constexpr std::string_view negation = "no_";
  const bool is_off = name.size() > negation.size() && is_same({name.data(), negation.size()}, negation);
  std::string_view positive = name;
  positive.remove_prefix(is_off ? negation.size() : 0);
  for (const auto& flag : flags) {
    if (is_same(flag.name, positive)) {
      f.*flag.field = !is_off;
      return features_error::none;
    }
  }
  return features::values_of(name).empty() ? features_error::unknown_name : features_error::bad_value;
}

features_error set_value(features& f, std::string_view name, std::string_view value) {
  for (const auto& duration : durations) {
    if (is_same(duration.name, name)) {
      const auto read = number(value);
      if (!read || *read < duration.least || *read > duration.most) {
        return features_error::bad_value;
      }
      f.*duration.field = *read;
      return features_error::none;
    }
  }
  for (const auto& choice : choices) {
    if (is_same(choice.name, name)) {
      unsigned position = 0;
      for (std::string_view rest = choice.values; !rest.empty(); ++position) {
        if (is_same(next_part(rest, ','), value)) {
          choice.set(f, position);
          return features_error::none;
        }
      }
      return features_error::bad_value;
    }
  }
  return features::values_of(name).empty() ? features_error::unknown_name : features_error::bad_value;
}

}  // namespace

std::optional<features> features::preset(std::string_view name) {
  for (const auto& p : presets) {
    if (is_same(p.name, name)) {
      return p.make();
    }
  }
  return std::nullopt;
}

std::span<const std::string_view> features::preset_names() { return preset_list; }

std::string_view features::names() { return {joined_names.data(), joined_names.size()}; }

std::string_view features::values_of(std::string_view name) {
  for (const auto& flag : flags) {
    if (is_same(flag.name, name)) {
      return "alone for on, with no_ in front for off";
    }
  }
  for (const auto& duration : durations) {
    if (is_same(duration.name, name)) {
      return duration.values;
    }
  }
  for (const auto& choice : choices) {
    if (is_same(choice.name, name)) {
      return choice.values;
    }
  }
  return {};
}

features_parse_result features::parse(std::string_view text) { return parse(text, runtime()); }

features_parse_result features::parse(std::string_view text, const features& base) {
  features_parse_result result{base};
  while (!text.empty()) {
    const std::string_view part = next_part(text, ',');
    if (part.empty()) {
      continue;
    }
    if (const auto whole = preset(part)) {
      result.value = *whole;
      continue;
    }
    std::string_view value = part;
    const std::string_view name = next_part(value, '=');
    result.error = name.size() == part.size() ? set_flag(result.value, name)
                                              : set_value(result.value, name, trimmed(value));
    if (!result) {
      result.offending = part;
      return result;
    }
  }
  if (result.value.slice_min > result.value.slice_max) {
    result.error = features_error::inconsistent;
    result.offending = "slice_min";
  }
  return result;
}

}  // namespace lagom::scheduler
