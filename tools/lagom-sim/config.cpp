// SPDX-License-Identifier: BSL-1.0
#include "config.hpp"

#include <fmt/format.h>

#include <string_view>

#include "fields.hpp"
#include "scheduler/entity.hpp"

namespace lagom::sim {

namespace {

using scheduler::features;
using scheduler::window_rule;

constexpr std::int64_t longest_tick = 1'000'000'000'000;  // 1000 s, of a tick

template <class Value>
struct choice {
  const char* name;
  Value value;
};

// The value of `key` among the choices, or `otherwise` if the key is absent.
template <class Value, std::size_t N>
Value choose(const fields& from, const char* key, const choice<Value> (&choices)[N], Value otherwise) {
  if (!from.has(key)) {
    return otherwise;
  }
  const std::string given = from.text(key);
  std::string valid;
  for (const auto& c : choices) {
    if (given == c.name) {
      return c.value;
    }
    valid += (valid.empty() ? "" : ", ") + std::string(c.name);
  }
  from.refuse(fmt::format("'{}' is \"{}\"; valid: {}", key, given, valid));
}

struct window_choice {
  window_rule rule;
  bool run_to_parity;
};

void read_window(const fields& from, features& knobs) {
  constexpr choice<window_choice> choices[] = {
      {"orig", {window_rule::request, true}},
      {"orig_off", {window_rule::request, false}},
      {"minslice", {window_rule::shortest_slice, true}},
      {"minslice_off", {window_rule::shortest_slice, false}},
      {"parity", {window_rule::eligibility, true}},
  };
  const window_choice chosen = choose(from, "rtp", choices, {knobs.window, knobs.run_to_parity});
  knobs.window = chosen.rule;
  knobs.run_to_parity = chosen.run_to_parity;
}

void read_rules(const fields& from, features& knobs) {
  using scheduler::delayed_rule;
  using scheduler::lag_rule;
  using scheduler::yield_rule;
  constexpr choice<lag_rule> limits[] = {{"own2x", lag_rule::twice_own_slice}, {"max_slice", lag_rule::longest_slice}};
  constexpr choice<yield_rule> yields[] = {{"deadline", yield_rule::deadline},
                                           {"forfeit_always", yield_rule::forfeit_always},
                                           {"forfeit", yield_rule::forfeit}};
  constexpr choice<delayed_rule> delayed[] = {{"zero", delayed_rule::cut_credit}, {"mono", delayed_rule::never_grows}};
  knobs.lag_limit = choose(from, "lag_limit", limits, knobs.lag_limit);
  knobs.yield_mode = choose(from, "yield_mode", yields, knobs.yield_mode);
  knobs.delayed_lag = choose(from, "delayed_lag", delayed, knobs.delayed_lag);
}

void read_flags(const fields& from, features& knobs) {
  knobs.place_lag = from.flag_or("place_lag", knobs.place_lag);
  knobs.place_deadline_initial = from.flag_or("place_deadline_initial", knobs.place_deadline_initial);
  knobs.place_rel_deadline = from.flag_or("place_rel_deadline", knobs.place_rel_deadline);
  knobs.delay_dequeue = from.flag_or("delay_dequeue", knobs.delay_dequeue);
  knobs.delay_zero = from.flag_or("delay_zero", knobs.delay_zero);
  knobs.preempt_short = from.flag_or("preempt_short", knobs.preempt_short);
  knobs.wakeup_preemption = from.flag_or("wakeup_preemption", knobs.wakeup_preemption);
  knobs.pick_buddy = from.flag_or("pick_buddy", knobs.pick_buddy);
  knobs.repick_protect = from.flag_or("repick_protect", knobs.repick_protect);
  knobs.fork_preempt = from.flag_or("fork_preempt", knobs.fork_preempt);
  knobs.repay_asleep = from.flag_or("repay_asleep", knobs.repay_asleep);
  knobs.cut_idle_credit = from.flag_or("cut_idle_credit", knobs.cut_idle_credit);
}

features read_preset(const fields& from) {
  if (!from.has("preset")) {
    return features::linux_7_1();
  }
  const std::string name = from.text("preset");
  const auto found = features::preset(name);
  if (!found) {
    from.refuse(fmt::format("'preset' is \"{}\"; valid: {}", name, fmt::join(features::preset_names(), ", ")));
  }
  return *found;
}

}  // namespace

config read_config(const json& object) {
  const fields from(object, "config");
  from.allow_only({"preset", "rtp", "base_slice", "norm_slice", "tick", "wakeup_granularity",
                   "yield_granularity", "slice_min", "slice_max", "place_lag",
                   "place_deadline_initial", "place_rel_deadline", "delay_dequeue", "delay_zero", "preempt_short",
                   "wakeup_preemption", "pick_buddy", "repick_protect", "fork_preempt", "repay_asleep",
                   "cut_idle_credit", "idle_stint", "lag_limit", "yield_mode", "delayed_lag", "resched", "state", "frac_bits", "unit", "arith"});
  config result;
  features& knobs = result.knobs;
  knobs = read_preset(from);
  read_window(from, knobs);
  read_rules(from, knobs);
  read_flags(from, knobs);
  knobs.base_slice = from.integer_or("base_slice", knobs.base_slice, 1, scheduler::slice_limit);
  knobs.norm_slice = from.integer_or("norm_slice", knobs.norm_slice, 1, scheduler::slice_limit);
  knobs.idle_stint = from.integer_or("idle_stint", knobs.idle_stint, 0, scheduler::slice_limit);
  knobs.slice_min = from.integer_or("slice_min", knobs.slice_min, 1, scheduler::slice_limit);
  knobs.slice_max = from.integer_or("slice_max", knobs.slice_max, 1, scheduler::slice_limit);
  if (knobs.slice_min > knobs.slice_max) {
    from.refuse(fmt::format("'slice_min' ({}) must not be above 'slice_max' ({})", knobs.slice_min, knobs.slice_max));
  }
  if (from.has("tick")) {
    result.tick = from.integer("tick", 0, longest_tick);
    knobs.credit_granularity = knobs.debt_granularity = result.tick;
  }
  knobs.wakeup_granularity = from.integer_or("wakeup_granularity", knobs.wakeup_granularity, 0, longest_tick);
  knobs.yield_granularity = from.integer_or("yield_granularity", knobs.yield_granularity, 0, longest_tick);
  constexpr choice<resched_rule> when[] = {{"now", resched_rule::now}, {"tick", resched_rule::tick}};
  constexpr choice<report_rule> report[] = {
      {"all", report_rule::all}, {"final", report_rule::final}, {"none", report_rule::none}};
  constexpr choice<int> arithmetic[] = {{"fp10", 10}, {"exact", 0}};
  result.resched = choose(from, "resched", when, resched_rule::now);
  result.state = choose(from, "state", report, report_rule::all);
  // Of other arithmetic there is only the model; here virtual times are always in 2^-10 ns.
  choose(from, "arith", arithmetic, 0);
  (void)from.integer_or("frac_bits", 0, 0, 64);
  (void)from.integer_or("unit", 0, 0, INT64_MAX);
  return result;
}

}  // namespace lagom::sim
