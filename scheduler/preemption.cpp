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
  const wide rest = offsets_ - static_cast<wide>(key(e).ticks) * e.share.scaled;
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

// By the rules up to 6.16.
bool run_queue::preempts_by_request(entity& e) {
  entity& c = *current_;
  const bool is_short = knobs_.preempt_short && e.slice < c.slice;
  if (is_short && is_eligible(e) && (is_before(e.virtual_deadline, c.virtual_deadline) || !is_eligible(c))) {
    end_protection(c);
  }
  return choose(honour::protection) == &e;
}

// By the rules from 6.17 on, of an e that asks for less than the current entity: the protection does not count.
bool run_queue::preempts_short(entity& e) {
  const bool drops_sleepers = knobs_.delayed_lag == delayed_rule::never_grows;
  bool is_hit = (drops_sleepers ? choose_runnable(honour::nothing) : choose(honour::nothing)) == &e;
  if (knobs_.window == window_rule::eligibility && is_eligible(e)) {
    is_hit = true;
    if (buddy_ == nullptr || buddy_->slice >= e.slice) {
      buddy_ = &e;
    }
  }
  if (is_hit) {
    end_protection(*current_);
  } else if (knobs_.run_to_parity) {
    tighten_window(*current_);
  }
  return is_hit;
}

}  // namespace lagom::scheduler
