// SPDX-License-Identifier: BSL-1.0
#include "run_queue.hpp"

#include "run_queue_inline.hpp"

namespace lagom::scheduler {

namespace {

// Nobody gets further than this from the origin, whatever overruns: signed distances stay true. At nice 0 it takes 26
// days of running while others wait, at weight 3 two hours; what is beyond is forgiven.
constexpr virtual_span horizon{std::int64_t{1} << 61};
// A stint longer than this (8 h at weight 3, 50 days at nice 0) may wrap around the virtual line.
constexpr std::int64_t longest_move = std::int64_t{1} << 60;

}  // namespace

run_queue::run_queue(const features& knobs, virtual_time start) noexcept : origin_(start), knobs_(knobs) {
  assert(knobs.base_slice > 0);
  assert(knobs.slice_min > 0);
  assert(knobs.slice_min <= knobs.slice_max);
  assert(knobs.slice_max <= slice_limit);
  assert(knobs.base_slice <= slice_limit);
}

virtual_time run_queue::virtual_now() const {
  if (offsets_ == 0) {
    return origin_;
  }
  if (queued_ == 1) {
    return current_ != nullptr && current_->on_rq ? current_->vruntime : waiting_.only().vruntime;
  }
  return origin_ + virtual_span{floor_divide(offsets_, total_weight_)};
}

nanos run_queue::service_lag(const entity& e) const {
  assert(e.on_rq);
  const wide mean = offsets_ * e.share.scaled;
  const wide mean_floor = mean / total_weight_ - (mean % total_weight_ < 0 ? 1 : 0);
  const wide lag = mean_floor - static_cast<wide>(key(e).ticks) * e.share.scaled;
  return static_cast<nanos>(lag >> 30);  // an arithmetic shift: floor
}

nanos run_queue::shortest_queued_slice() const {
  if (current_ == nullptr || !current_->on_rq) {
    return waiting_.shortest_slice();
  }
  return waiting_.is_empty() ? current_->slice : std::min(nanos{current_->slice}, waiting_.shortest_slice());
}

nanos run_queue::longest_queued_slice() const {
  if (current_ == nullptr || !current_->on_rq) {
    return waiting_.longest_slice();
  }
  return waiting_.is_empty() ? current_->slice : std::max(nanos{current_->slice}, waiting_.longest_slice());
}

// --- what is rare ----------------------------------------------------------------------------------------------------

// The current entity, at the start of a request, is far from the origin.
__attribute__((noinline)) void run_queue::renew_far(entity& e) {
  move_origin(virtual_now());
  const virtual_span too_far = key(e) - horizon;
  if (too_far.ticks > 0) {
    move(e, -too_far);
    e.virtual_deadline = e.virtual_deadline - too_far;
  }
  keep_window_behind(e);
}

// A stint so long that the virtual line may not have room for it: alone, the entity takes V along as far as it likes.
__attribute__((noinline)) void run_queue::account_long(entity& e, nanos ran) {
  const unsigned_wide ticks = virtual_ticks_wide(ran, e.share);
  if (ticks <= static_cast<unsigned_wide>(longest_move)) {
    move(e, {static_cast<std::int64_t>(ticks)});
    return;
  }
  if (queued_ > 1 || !e.on_rq) {
    move(e, {longest_move});
    return;
  }
  e.vruntime.ticks += static_cast<std::uint64_t>(ticks);
  e.virtual_deadline = e.vruntime;  // its request is over, though the signs of distances can no longer tell
  e.window = e.vruntime - long_ago;
  e.is_window_open = false;
}

// The slice of an idle entity stays what it was: a short one would shorten everybody's protection.
void run_queue::limit_request(entity& e) {
  if (knobs_.idle_stint != 0 && is_work_beside_idle()) {
    e.request = std::min(e.request, to_virtual(knobs_.idle_stint, e.share));
  }
}

// An idle entity is about to join.
__attribute__((noinline)) void run_queue::prepare_idle(entity& e, joining why) {
  limit_request(e);
  if (knobs_.cut_idle_credit && why == joining::woken && is_work_beside_idle()) {
    e.vlag = std::min(e.vlag, virtual_span{0});
  }
  idle_ += e.delayed ? 0 : 1;
}

// An idle entity begins its next request. If it is still owed service, the short one would be due before anybody else's,
// and the next one too: so beside other work it counts from V.
__attribute__((noinline)) void run_queue::renew_idle(entity& e) {
  set_request(e, e.slice);
  limit_request(e);
  virtual_time from = e.vruntime;
  if (knobs_.idle_stint != 0 && is_work_beside_idle()) {
    const virtual_time v = virtual_now();
    from = is_before(e.vruntime, v) ? v : e.vruntime;
  }
  e.virtual_deadline = from + e.request;
}

// An idle entity is about to run, or to run on. Its request may be from a time when nobody else was here.
__attribute__((noinline)) void run_queue::shorten_request(entity& e) {
  if (knobs_.idle_stint == 0 || !is_work_beside_idle()) {
    return;
  }
  e.virtual_deadline = earlier(e.virtual_deadline, e.vruntime + to_virtual(knobs_.idle_stint, e.share));
  if (knobs_.window != window_rule::request) {
    e.window = earlier(e.window, e.virtual_deadline);
  }
}

__attribute__((noinline)) entity* run_queue::first_eligible() { return waiting_.first_eligible(virtual_now()); }

// Sleepers that were paying their debt and would be picked: now it is paid.
__attribute__((noinline)) entity* run_queue::drop_sleepers(entity& sleeper, honour what) {
  entity* chosen = &sleeper;
  while (chosen != nullptr && chosen->delayed) {
    leave(*chosen, leaving::parked);
    chosen = choose(what);
  }
  return chosen;
}

nanos run_queue::time_left() const {
  assert(current_ != nullptr);
  const entity& e = *current_;
  virtual_time stop = e.virtual_deadline;
  if (knobs_.window != window_rule::request && is_protected(e)) {
    stop = earlier(stop, e.window);
  }
  const wide left = static_cast<wide>((stop - e.vruntime).ticks) * e.share.scaled;
  const wide ran = -((-left) >> 30);  // rounded up: after it the point is reached
  return ran < 1 ? 1 : static_cast<nanos>(ran);
}

// --- the verbs -------------------------------------------------------------------------------------------------------
// Those of every step are one frame each: their parts, called one by one, would spend a tenth of the instructions on
// saving registers. What is rare is kept out of them by noinline.

bool run_queue::charge(nanos now) {
  account_until(now);
  return need_resched_;
}

__attribute__((flatten)) entity* run_queue::pick(nanos now) {
  account_until(now);
  return switch_to(choose_runnable(honour::protection));
}

__attribute__((flatten)) entity* run_queue::yield_and_pick(nanos now) {
  account_until(now);
  forfeit();
  return switch_to(choose_runnable(honour::protection));
}

void run_queue::yield(nanos now) {
  account_until(now);
  forfeit();
}

bool run_queue::yield_to(entity& target, nanos now) {
  if (!target.on_rq || target.delayed) {
    return false;
  }
  if (target.kind != policy::idle) {
    buddy_ = &target;
  }
  yield(now);
  return true;
}

__attribute__((flatten)) bool run_queue::enqueue(entity& e, joining why, nanos now) {
  account_until(now);
  if (e.on_rq) {
    assert(e.delayed);
    assert(why == joining::woken);
    wake_delayed(e);
  } else {
    if (why != joining::migrated) {
      e.delayed = false;
    }
    join(e, why);
  }
  return check_preemption(e, why);
}

void run_queue::dequeue(entity& e, leaving why, nanos now) {
  assert(e.on_rq);
  account_until(now);
  if (why == leaving::parked) {
    assert(&e == current_);
    if (knobs_.delay_dequeue && !is_eligible(e)) {
      save_lag(e);
      e.delayed = true;
      ++delayed_;
      idle_ -= e.kind == policy::idle ? 1 : 0;
      if (buddy_ == &e) {
        buddy_ = nullptr;
      }
      return;
    }
  }
  leave(e, why);
}

__attribute__((flatten)) entity* run_queue::park_and_pick(nanos now) {
  assert(current_ != nullptr);
  dequeue(*current_, leaving::parked, now);
  return pick(now);
}

bool run_queue::reweight(entity& e, weight share, nanos now) {
  assert(share.scaled > 0);
  account_until(now);
  const weight before = e.share;
  rescale(e, share);
  if (&e == current_) {
    if (share.scaled < before.scaled && queued_ > 1) {
      need_resched_ = true;
      return true;
    }
    return false;
  }
  return e.on_rq && share != before && check_preemption(e, joining::woken);
}

bool run_queue::set_policy(entity& e, policy kind, weight share, nanos now) {
  assert(share.scaled > 0);
  account_until(now);
  const bool was_queued = e.on_rq;
  if (was_queued) {
    leave(e, leaving::migrated);
  }
  e.kind = kind;
  rescale(e, share);
  if (!was_queued) {
    return false;
  }
  join(e, joining::migrated);
  if (&e == current_ && kind == policy::idle && knobs_.idle_stint != 0 && is_work_beside_idle()) {
    need_resched_ = true;  // the others need not wait for the request that it began as one of them
    return true;
  }
  return check_preemption(e, joining::migrated);
}

void run_queue::set_slice(entity& e, nanos slice, nanos now) {
  assert(slice >= 0);
  account_until(now);
  const bool was_queued = e.on_rq;
  if (was_queued) {
    leave(e, leaving::migrated);
  }
  e.has_custom_slice = slice != 0;
  set_request(e, e.has_custom_slice ? std::clamp(slice, knobs_.slice_min, knobs_.slice_max) : knobs_.base_slice);
  if (was_queued) {
    join(e, joining::migrated);
  }
}

void run_queue::set_default_slice(nanos slice) {
  assert(slice > 0);
  assert(slice <= slice_limit);
  knobs_.base_slice = slice;
}

}  // namespace lagom::scheduler
