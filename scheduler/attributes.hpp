// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <optional>

#include "clamp.hpp"
#include "entity.hpp"
#include "virtual_time.hpp"
#include "weight.hpp"

// What a change of attributes does: nothing, a way through the run queue, or a refusal. A pure function; docs/scheduling.md
// has the table and how it differs from Linux, tests/golden/setattr/ has all rows.
namespace lagom::scheduler {

// One of the two clamps as it was asked for. Implicit: nobody has asked, and it says nothing.
struct clamp_request {
  std::int16_t value = 0;
  bool is_users = false;

  friend constexpr bool operator==(clamp_request, clamp_request) = default;
};
inline constexpr clamp_request implicit_min{0, false};
inline constexpr clamp_request implicit_max{capacity_scale, false};

// What an entity has asked for. Never what a boost gives it for a while: that is added where it takes effect.
struct attribute_state {
  policy kind = policy::normal;
  std::int8_t nice = 0;
  // Custom or default mode is a state of its own: a custom slice that equals the default does not follow it.
  bool has_custom_slice = false;
  // Somebody's donation is in effect: what takes effect has to be computed again whatever is asked for.
  bool is_boosted = false;
  nanos slice = 0;  // in default mode the default when it was last looked at
  clamp_request util_min = implicit_min, util_max = implicit_max;

  friend constexpr bool operator==(const attribute_state&, const attribute_state&) = default;
};

// What a call names. What it does not name stays, but for implicit clamps that hold something.
struct attribute_wish {
  std::optional<policy> kind{};
  std::optional<int> nice{};               // out of range is clamped
  std::optional<nanos> slice{};            // 0: default mode
  std::optional<int> util_min{}, util_max{};  // -1: implicit again
  bool keeps_params = false;               // nice and slice stay, even if named
};

struct slice_rules {
  enum class beyond : std::uint8_t { is_clamped, is_refused };

  nanos by_default;
  nanos least, most;
  beyond range = beyond::is_refused;
};

enum class change_path : std::uint8_t { fast, full, invalid };
enum class refusal : std::uint8_t { none, slice_out_of_range, util_min_out_of_range, util_max_out_of_range, min_above_max };

struct change_decision {
  change_path path = change_path::fast;
  refusal why = refusal::none;
  attribute_state after{};  // the state before unless the path is full
};

// fast: nothing changes, and nobody need be told. full: `after` holds. invalid: `why` says what is wrong.
[[nodiscard]] change_decision decide(const attribute_state& before, const attribute_wish& wish, const slice_rules& rules);

// What an entity of that state gets.
[[nodiscard]] weight share_of(const attribute_state& state);
[[nodiscard]] constexpr clamp_range clamp_of(const attribute_state& state) {
  return {static_cast<std::uint16_t>(state.util_min.value), static_cast<std::uint16_t>(state.util_max.value)};
}

}  // namespace lagom::scheduler
