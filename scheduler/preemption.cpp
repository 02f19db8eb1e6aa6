// SPDX-License-Identifier: BSL-1.0
// How long the current entity is protected from displacement, and whether one that has just joined displaces it.
#include "run_queue_inline.hpp"

namespace lagom::scheduler {

bool run_queue::is_protected() const { return current_ != nullptr && current_->on_rq && is_protected(*current_); }

void run_queue::end_protection(entity& e) {
  if (!is_protected(e)) {
    return;
  }
  e.is_window_open = false;
  if (knobs_.window != window_rule::request) {
    e.window = e.vruntime;
  }
}

// V of all but e, rounded down.
virtual_time run_queue::virtual_time_of_others(const entity& e) const {
  if (!e.on_rq) {
    return virtual_now();
  }
  assert(total_weight_ > e.share.scaled);
  const wide rest = offsets_ - static_cast<wide>(key(e).ticks) * static_cast<wide>(e.share.scaled);
  return origin_ + virtual_span{floor_divide(rest, total_weight_ - e.share.scaled)};
}

// Where the window of the current entity e ends. At a pick without run to parity it is the normalized slice.
virtual_time run_queue::window_end(const entity& e, moment when) const {
  if (!knobs_.run_to_parity && when == moment::pick) {
    return knobs_.norm_slice >= e.slice ? e.virtual_deadline
                                        : earlier(e.virtual_deadline, e.vruntime + to_virtual(knobs_.norm_slice, e.share));
  }
  const nanos low = shortest_queued_slice();
  if (knobs_.window == window_rule::shortest_slice && low >= e.slice) {
    return e.virtual_deadline;
  }
  const virtual_span span = low >= e.slice ? e.request : to_virtual(low, e.share);
  virtual_time end = earlier(e.virtual_deadline, e.vruntime + span);
  if (knobs_.window == window_rule::eligibility && low < e.slice && knobs_.preempt_short) {
    // One virtual nanosecond beyond the mean of the others it is ineligible, however V is rounded.
    end = earlier(end, virtual_time_of_others(e) + virtual_span{1 << virtual_time_bits});
  }
  return end;
}

void run_queue::tighten_window(entity& e) {
  assert(knobs_.window != window_rule::request);
  e.window = earlier(e.window, window_end(e, moment::failed_preemption));
}

bool run_queue::request_preemption() {
  need_resched_ = true;
  return true;
}

// By the rules up to 6.16.
bool run_queue::preempts_by_request(entity& e, bool is_short) {
  entity& c = *current_;
  if (is_short && is_eligible(e) && (is_before(e.virtual_deadline, c.virtual_deadline) || !is_eligible(c))) {
    end_protection(c);
  }
  return choose(honour::protection) == &e;
}

// By the rules from 6.17 on: e displaces the current entity if it would be the pick.
bool run_queue::preempts_by_pick(entity& e, bool is_short, joining why) {
  bool is_hit = false;
  if (is_short || why != joining::spawned || knobs_.fork_preempt) {
    const honour what = is_short ? honour::nothing : honour::protection;
    // A sleeper that has paid its debt must not hide e (7.1).
    is_hit = (knobs_.delayed_lag == delayed_rule::never_grows ? choose_runnable(what) : choose(what)) == &e;
  }
  if (is_short && knobs_.window == window_rule::eligibility && is_eligible(e)) {
    is_hit = true;
    if (buddy_ == nullptr || buddy_->slice >= e.slice) {
      buddy_ = &e;
    }
  }
  if (is_hit && is_short) {
    end_protection(*current_);
  } else if (!is_hit && knobs_.run_to_parity) {
    tighten_window(*current_);
  }
  return is_hit;
}

bool run_queue::check_preemption(entity& e, joining why) {
  if (current_ == nullptr) {
    return true;  // nothing to displace, somebody to run
  }
  entity& c = *current_;
  const bool decides_again = knobs_.window == window_rule::eligibility && knobs_.preempt_short;
  if (&e == &c || e.delayed || (need_resched_ && !decides_again) || !knobs_.wakeup_preemption) {
    return false;
  }
  if (c.kind == policy::idle && e.kind != policy::idle) {
    end_protection(c);
    return request_preemption();
  }
  if (c.kind == policy::idle || e.kind != policy::normal) {
    return false;
  }
  const bool is_short = knobs_.preempt_short && e.slice < c.slice;
  const bool preempts = knobs_.window == window_rule::request ? preempts_by_request(e, is_short)
                                                              : preempts_by_pick(e, is_short, why);
  return preempts && request_preemption();
}

}  // namespace lagom::scheduler
