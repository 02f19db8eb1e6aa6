// SPDX-License-Identifier: BSL-1.0
#include "attributes.hpp"

#include <algorithm>

namespace lagom::scheduler {

namespace {

constexpr int reset = -1;

bool is_possible(const std::optional<int>& clamp) {
  return !clamp || (*clamp >= reset && *clamp <= static_cast<int>(capacity_scale));
}

// A user's value stays until the user takes it back; an implicit one says nothing after any full change.
clamp_request merged(const clamp_request& before, const std::optional<int>& wish, const clamp_request& implicit) {
  if (wish) {
    return *wish == reset ? implicit : clamp_request{static_cast<std::int16_t>(*wish), true};
  }
  return before.is_users ? before : implicit;
}

bool is_in(nanos slice, const slice_rules& rules) { return slice == 0 || (slice >= rules.least && slice <= rules.most); }

refusal refusal_of(const attribute_state& before, const attribute_wish& wish, const slice_rules& rules) {
  if (wish.slice && !wish.keeps_params) {
    if (*wish.slice < 0 || (rules.range == slice_rules::beyond::is_refused && !is_in(*wish.slice, rules))) {
      return refusal::slice_out_of_range;
    }
  }
  if (!is_possible(wish.util_min)) {
    return refusal::util_min_out_of_range;
  }
  if (!is_possible(wish.util_max)) {
    return refusal::util_max_out_of_range;
  }
  const clamp_request min = merged(before.util_min, wish.util_min, implicit_min);
  const clamp_request max = merged(before.util_max, wish.util_max, implicit_max);
  return min.value > max.value ? refusal::min_above_max : refusal::none;
}

void set_slice(attribute_state& state, nanos slice, const slice_rules& rules) {
  state.has_custom_slice = slice != 0;
  state.slice = state.has_custom_slice ? std::clamp(slice, rules.least, rules.most) : rules.by_default;
}

}  // namespace

change_decision decide(const attribute_state& before, const attribute_wish& wish, const slice_rules& rules) {
  change_decision d;
  d.after = before;
  d.why = refusal_of(before, wish, rules);
  if (d.why != refusal::none) {
    d.path = change_path::invalid;
    return d;
  }
  const bool names_clamp = wish.util_min || wish.util_max;
  attribute_state after = before;
  after.kind = wish.kind.value_or(before.kind);
  if (!wish.keeps_params) {
    if (wish.nice) {
      after.nice = static_cast<std::int8_t>(std::clamp(*wish.nice, nice_min, nice_max));
    }
    // A default that has changed since is taken over by any call, named or not.
    set_slice(after, wish.slice.value_or(before.has_custom_slice ? before.slice : 0), rules);
  } else if (after.kind == before.kind && !names_clamp) {
    return d;
  }
  after.util_min = merged(before.util_min, wish.util_min, implicit_min);
  after.util_max = merged(before.util_max, wish.util_max, implicit_max);
  if (after == before && !names_clamp && !before.is_boosted) {
    return d;
  }
  d.path = change_path::full;
  d.after = after;
  return d;
}

weight share_of(const attribute_state& state) {
  return state.kind == policy::idle ? idle_weight : weight_of_nice(state.nice);
}

}  // namespace lagom::scheduler
