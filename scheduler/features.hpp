// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "virtual_time.hpp"

namespace lagom::scheduler {

// How long a picked entity is protected from displacement by run to parity.
enum class window_rule : std::uint8_t {
  request,         // the whole request, while eligible at picks (6.6 … 6.16)
  shortest_slice,  // up to the shortest slice queued (6.17 … 7.2)
  eligibility,     // also never beyond the point where it becomes ineligible if a shorter slice waits (7.3)
};

// How much lag an entity may carry away when it leaves.
enum class lag_rule : std::uint8_t { twice_own_slice, longest_slice };

// What a yield costs.
enum class yield_rule : std::uint8_t {
  deadline,        // the virtual deadline moves by a slice; the only eligible one is picked again
  forfeit_always,  // the rest of the request is given up
  forfeit,         // the same, but only by an eligible one: else repeated yields would run it away
};

// What a sleeper that is still queued may have become when it wakes.
enum class delayed_rule : std::uint8_t {
  cut_credit,   // credit is cut to 0; the debt may have grown
  never_grows,  // credit is cut to 0 and the debt is never more than at the start of the sleep
};

struct features_parse_result;

// The policy's knobs. The defaults are those of Linux 7.1; runtime() is what lagom itself runs with. The kernel-like
// names are in features::names(), the JSON names of lagom-sim are the same.
struct features {
  // Lag is kept over sleep and migration; without it everybody joins at V, and sleeping just before becoming ineligible
  // pays. tests/golden/run_queue/07_join_positive_lag.json, 08_join_negative_lag.json
  bool place_lag = true;
  // A newcomer's first request is half a slice: the others are on average half through theirs, and it should not wait
  // behind all of them. tests/golden/run_queue/06_join_at_V.json
  bool place_deadline_initial = true;
  // A migrated or changed entity keeps the rest of its request; else every steal would renew it.
  // tests/golden/run_queue/40_migrate_keeps_lag_and_deadline.json
  bool place_rel_deadline = true;
  // A picked entity is protected for a while: the main lever on the number of switches.
  // tests/golden/run_queue/16_switches_rtp_orig.json … 20_switches_rtp_parity.json
  bool run_to_parity = true;
  // Which protection. tests/golden/run_queue/21_protect_min_slice.json, 22_protect_orig_full_slice.json
  window_rule window = window_rule::shortest_slice;
  // A woken entity with a shorter slice may break the protection: latency for those who ask for little.
  // tests/golden/run_queue/15_latency_short_slice.json
  bool preempt_short = true;
  // A woken entity may displace the current one at all. tests/golden/run_queue/27_idle_never_preempts.json
  bool wakeup_preemption = true;
  // The one named by yield_to() goes first if it is eligible. tests/golden/run_queue/39_yield_to.json
  bool pick_buddy = true;
  // Being picked again opens a new window. Off as in Linux: tests/golden/run_queue/25_repick_does_not_renew_window.json
  bool repick_protect = false;
  // A spawned entity may displace its parent (before 6.19). tests/golden/run_queue/45_fork_storm.json
  bool fork_preempt = false;
  // Who parks in debt stays queued until the debt is paid. Costs tree work at each park of a debtor.
  // tests/golden/run_queue/30_delayed_burn_off.json, 32_no_delay_keeps_debt.json
  bool delay_dequeue = true;
  // Sleeping in the queue earns no credit. tests/golden/run_queue/30_delayed_burn_off.json
  bool delay_zero = true;
  // tests/golden/run_queue/33_delayed_debt_may_not_grow.json, 34_delayed_debt_grows_old.json
  delayed_rule delayed_lag = delayed_rule::never_grows;
  // Without delayed dequeue: a debt is worked off by the virtual time that passes on the queue it was made on, as if the
  // sleeper had stayed. No Linux has this; it replaces delay_dequeue at a fraction of its cost.
  // tests/unit/scheduler/placement_test.cpp
  bool repay_asleep = false;
  // An idle entity that wakes while others than idle ones are queued comes without credit. Its weight makes the credit
  // long on the virtual line: it would run at once, again and again, beside work that should not notice it. No Linux
  // has this since EEVDF. tests/unit/scheduler/idle_test.cpp
  bool cut_idle_credit = false;
  // tests/golden/run_queue/11_lag_clamp_max_slice.json, 12_lag_clamp_own_slice.json
  lag_rule lag_limit = lag_rule::longest_slice;
  // tests/golden/run_queue/36_yield_forfeit.json, 37_yield_deadline_old.json, 38_yield_storm.json
  yield_rule yield_mode = yield_rule::forfeit;

  // What default mode asks for. tests/golden/run_queue/02_equal_two_exact.json, 46_fiber_scale.json
  nanos base_slice = 2'800'000;
  // The window without run_to_parity. tests/golden/run_queue/19_switches_rtp_minslice_off.json
  nanos norm_slice = 700'000;
  // What an entity may overrun before somebody looks; widens the limit of the credit (waiting longer than its slice)
  // and of the debt (running longer than its slice). In Linux both are the tick. Fibers overrun without bound, and a
  // clamped debt is a forgiven one, so the runtime keeps the two apart.
  // tests/golden/run_queue/13_lag_clamp_negative.json, tests/unit/scheduler/placement_test.cpp
  nanos credit_granularity = 1'000'000;
  // The other half of the pair above.
  nanos debt_granularity = 1'000'000;
  // A woken entity that asks for no less than the current one displaces it only when that one has run for as long since
  // the wake-up: at bursts of 0.1 us the waker is nearly always a hair ahead of the wakee, and each message would be a
  // switch (messaging: switches 0.18 -> 0.05 per message). 0, as in Linux since 6.6: at once.
  // tests/unit/scheduler/preemption_test.cpp
  nanos wakeup_granularity = 0;
  // Who yields and owes no more than this counts as eligible, so it forfeits its request. Among many who only yield each
  // is a hair ahead after its turn; by the strict rule nobody would forfeit, virtual deadlines would stand still, and each
  // turn would search a tree for the next eligible one (1,000 fibers: 2,200 -> 510 instructions). Still bounded: having
  // forfeited, one owes a whole request. 0, as in Linux: the strict rule. tests/unit/scheduler/preemption_test.cpp
  nanos yield_granularity = 0;
  // An idle entity asks for no more than this at a time while others than idle ones are queued: who finds it running waits
  // one such stint, not a slice. Its share stays, in shorter turns. 0, as in Linux since EEVDF (5.16 to 6.5 had
  // 0.75 ms): it asks for its slice. tests/unit/scheduler/idle_test.cpp
  nanos idle_stint = 0;
  // Custom slices are clamped to this range. tests/golden/run_queue/29_slice_change_mid_request.json
  nanos slice_min = 100'000;
  // The other end of the range.
  nanos slice_max = 100'000'000;

  [[nodiscard]] static constexpr features linux_7_1() { return {}; }
  [[nodiscard]] static constexpr features linux_6_18() {
    features f;
    f.lag_limit = lag_rule::twice_own_slice;
    f.delayed_lag = delayed_rule::cut_credit;
    f.fork_preempt = true;
    return f;
  }
  [[nodiscard]] static constexpr features linux_6_12() {
    features f = linux_6_18();
    f.yield_mode = yield_rule::deadline;  // forfeiting came with a 6.18.x
    f.window = window_rule::request;
    f.base_slice = 3'000'000;
    f.norm_slice = 750'000;
    return f;
  }
  [[nodiscard]] static constexpr features tip_2026_09() {
    features f;
    f.window = window_rule::eligibility;
    return f;
  }
  // Fibers: bursts are a thousandth of a thread's, there is no tick, and nobody can be interrupted.
  [[nodiscard]] static constexpr features runtime() {
    features f;
    f.delay_dequeue = false;
    f.repay_asleep = true;
    f.base_slice = 500'000;
    f.norm_slice = 125'000;
    f.credit_granularity = 100'000;
    f.debt_granularity = 10'000'000'000;
    f.wakeup_granularity = 20'000;
    f.yield_granularity = 20'000;
    f.idle_stint = 50'000;
    f.cut_idle_credit = true;
    f.slice_min = 1'000;
    return f;
  }

  // "linux-7.1", "linux-6.18", "linux-6.12", "tip-2026-09", "runtime".
  [[nodiscard]] static std::optional<features> preset(std::string_view name);
  [[nodiscard]] static std::span<const std::string_view> preset_names();

  // Comma-separated changes to `base`: "no_run_to_parity,delay_dequeue,base_slice=200000,window=request". Durations are
  // in nanoseconds. The name of a preset sets all knobs and belongs in front: "linux-6.18,no_delay_dequeue". Empty text
  // changes nothing; spaces around names are skipped.
  [[nodiscard]] static features_parse_result parse(std::string_view text, const features& base);
  [[nodiscard]] static features_parse_result parse(std::string_view text);  // base: runtime()

  // All names parse() knows, for messages: "place_lag, place_deadline_initial, …".
  [[nodiscard]] static std::string_view names();
  // The values of an enumerated or the range of a numeric knob, for messages; empty if there is no such knob.
  [[nodiscard]] static std::string_view values_of(std::string_view name);
};

enum class features_error : std::uint8_t { none, unknown_name, bad_value, inconsistent };

struct features_parse_result {
  features value{};
  features_error error = features_error::none;
  std::string_view offending{};  // the part of the text that is wrong; empty if none is

  explicit operator bool() const { return error == features_error::none; }
};

}  // namespace lagom::scheduler
