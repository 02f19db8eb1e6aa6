// SPDX-License-Identifier: BSL-1.0
// What the table of tests/golden/setattr/ leaves out: refusals, edges, what is named together.
#include "scheduler/attributes.hpp"

#include <doctest/doctest.h>

#include <limits>

namespace lagom::test {
namespace {

using namespace scheduler;

constexpr slice_rules rules{500'000, 1'000, 100'000'000, slice_rules::beyond::is_refused};

attribute_state plain() {
  attribute_state s;
  s.slice = rules.by_default;
  return s;
}

void check_refused(const attribute_state& before, const attribute_wish& wish, refusal why) {
  const change_decision d = decide(before, wish, rules);
  CHECK(d.path == change_path::invalid);
  CHECK(d.why == why);
  CHECK(d.after == before);
}

}  // namespace

TEST_CASE("attributes: a wish that names nothing is fast in either mode") {
  attribute_state s = plain();
  CHECK(decide(s, {}, rules).path == change_path::fast);
  s.has_custom_slice = true;
  s.slice = 7'000;
  s.kind = policy::idle;
  s.nice = 19;
  s.util_min = {300, true};
  CHECK(decide(s, {}, rules).path == change_path::fast);
  CHECK(decide(s, {}, rules).after == s);
}

TEST_CASE("attributes: slices outside the range are refused where the rules say so") {
  for (const nanos slice : {nanos{-1}, nanos{1}, nanos{999}, nanos{100'000'001}, std::numeric_limits<nanos>::max(),
                            std::numeric_limits<nanos>::min()}) {
    check_refused(plain(), {.slice = slice}, refusal::slice_out_of_range);
  }
  CHECK(decide(plain(), {.slice = 1'000}, rules).after.slice == 1'000);
  CHECK(decide(plain(), {.slice = 100'000'000}, rules).after.slice == 100'000'000);
}

TEST_CASE("attributes: slices outside the range are clamped where the rules say so, negative ones refused") {
  const slice_rules clamping{500'000, 1'000, 100'000'000, slice_rules::beyond::is_clamped};
  CHECK(decide(plain(), {.slice = 1}, clamping).after.slice == 1'000);
  CHECK(decide(plain(), {.slice = std::numeric_limits<nanos>::max()}, clamping).after.slice == 100'000'000);
  CHECK(decide(plain(), {.slice = -1}, clamping).why == refusal::slice_out_of_range);
}

TEST_CASE("attributes: nice is clamped, so what is beyond is the end") {
  CHECK(decide(plain(), {.nice = 1'000}, rules).after.nice == nice_max);
  CHECK(decide(plain(), {.nice = std::numeric_limits<int>::min()}, rules).after.nice == nice_min);
  attribute_state last = plain();
  last.nice = nice_max;
  CHECK(decide(last, {.nice = 20}, rules).path == change_path::fast);
}

TEST_CASE("attributes: clamps out of range") {
  for (const int value : {-2, 1025, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    check_refused(plain(), {.util_min = value}, refusal::util_min_out_of_range);
    check_refused(plain(), {.util_max = value}, refusal::util_max_out_of_range);
  }
}

TEST_CASE("attributes: min above max is refused, by the values of the user alone") {
  check_refused(plain(), {.util_min = 600, .util_max = 500}, refusal::min_above_max);
  attribute_state s = plain();
  s.util_min = {600, true};
  check_refused(s, {.util_max = 599}, refusal::min_above_max);
  CHECK(decide(s, {.util_max = 600}, rules).path == change_path::full);
  CHECK(decide(s, {.util_min = 400, .util_max = 500}, rules).path == change_path::full);
  CHECK(decide(s, {.util_min = -1, .util_max = 500}, rules).path == change_path::full);
  s = plain();
  s.util_max = {300, true};
  check_refused(s, {.util_min = 301}, refusal::min_above_max);
  CHECK(decide(s, {.util_min = 301, .util_max = -1}, rules).path == change_path::full);
}

TEST_CASE("attributes: what an implicit clamp holds by accident neither refuses nor stays") {
  attribute_state s = plain();
  s.util_min = {1024, false};
  const change_decision d = decide(s, {.util_max = 800}, rules);
  CHECK(d.path == change_path::full);
  CHECK(d.after.util_min == implicit_min);
  CHECK(d.after.util_max == clamp_request{800, true});
}

TEST_CASE("attributes: an invalid wish changes nothing, though the rest of it is good") {
  check_refused(plain(), {.kind = policy::idle, .nice = 5, .util_min = 2'000}, refusal::util_min_out_of_range);
}

TEST_CASE("attributes: kept parameters stay though they are named, and are not judged") {
  attribute_state s = plain();
  s.nice = 3;
  const attribute_wish wish{.nice = -7, .slice = -1, .keeps_params = true};
  CHECK(decide(s, wish, rules).path == change_path::fast);
  attribute_wish moved = wish;
  moved.kind = policy::batch;
  const change_decision d = decide(s, moved, rules);
  CHECK(d.path == change_path::full);
  CHECK(d.after.kind == policy::batch);
  CHECK(d.after.nice == 3);
  CHECK_FALSE(d.after.has_custom_slice);
}

TEST_CASE("attributes: default mode follows a new default at the next call, custom mode does not") {
  slice_rules later = rules;
  later.by_default = 800'000;
  const change_decision d = decide(plain(), {}, later);
  CHECK(d.path == change_path::full);
  CHECK(d.after.slice == 800'000);
  CHECK_FALSE(d.after.has_custom_slice);
  attribute_state custom = plain();
  custom.has_custom_slice = true;
  CHECK(decide(custom, {.slice = 500'000}, later).path == change_path::fast);
}

TEST_CASE("attributes: shares and clamps of a state") {
  attribute_state s = plain();
  CHECK(share_of(s) == nice_0_weight);
  s.nice = 5;
  CHECK(share_of(s) == weight_of_nice(5));
  s.kind = policy::idle;
  CHECK(share_of(s) == idle_weight);
  CHECK(clamp_of(s).is_neutral());
  s.util_max = {400, true};
  CHECK(clamp_of(s) == clamp_range{0, 400});
}

}  // namespace lagom::test
