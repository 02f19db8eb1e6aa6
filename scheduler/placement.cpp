// SPDX-License-Identifier: BSL-1.0
// Where on the virtual line an entity lands when it joins, and what it takes along when it leaves.
#include "run_queue_inline.hpp"

namespace lagom::scheduler {

virtual_span run_queue::lag_limit(const entity& e, nanos granularity) const {
  if (knobs_.lag_limit == lag_rule::twice_own_slice) {
    return to_virtual(std::max(2 * nanos{e.slice}, granularity), e.share);
  }
  return to_virtual(longest_queued_slice() + granularity, e.share);
}

// What e may take along of its actual lag.
virtual_span run_queue::permitted_lag(const entity& e, virtual_span actual) const {
  virtual_span lag = actual;
  if (actual > e.request) {
    lag = std::min(actual, lag_limit(e, knobs_.credit_granularity));
  } else if (actual < -e.request) {
    lag = std::max(actual, -lag_limit(e, knobs_.debt_granularity));
  }
  if (e.delayed && knobs_.delayed_lag == delayed_rule::never_grows) {
    lag = std::max(lag, e.vlag);
    lag = std::min(lag, knobs_.delay_zero ? virtual_span{0} : lag_limit(e, knobs_.credit_granularity));
  }
  return lag;
}

// e parked here in debt and wakes. Had it stayed queued, its vruntime would be where it is, and the debt paid when V gets
// there, that is when the mean of the others gets there. So: the old place if it is still ahead of V, else V; but never
// further than the debt it left with, as V may have moved back meanwhile.
virtual_time run_queue::place_debtor(const entity& e) const {
  assert(e.vlag.ticks < 0);
  const virtual_time v = virtual_now();
  const virtual_span most = -e.vlag - scale(e.vlag, e.share.scaled, total_weight_);
  const virtual_span ahead = e.vruntime - v;
  return ahead.ticks <= 0 ? v : v + std::min(ahead, most);
}

// A delayed sleeper wakes. Mostly it just stays where it is; if it is owed more or owes more than it may, it is placed
// again, with a new request.
void run_queue::wake_delayed(entity& e) {
  assert(e.on_rq);
  assert(e.delayed);
  bool is_moved = save_lag(e);
  if (knobs_.delayed_lag == delayed_rule::cut_credit) {
    is_moved = knobs_.delay_zero && e.vlag.ticks > 0;
    if (is_moved) {
      e.vlag = {0};
    }
  }
  if (is_moved) {
    take_out(e);
    e.delayed = false;
    join(e, joining::migrated);
  } else {
    e.delayed = false;
    --delayed_;
    idle_ += e.kind == policy::idle ? 1 : 0;
  }
}

// Everything is rescaled about V, which stays where it is; lag and what is left of the request keep their real length.
void run_queue::rescale(entity& e, weight share) {
  const std::int64_t before = e.share.scaled;
  const std::int64_t after = share.scaled;
  if (!e.on_rq) {
    if (e.deadline_is_relative) {
      const virtual_span left{static_cast<std::int64_t>(e.virtual_deadline.ticks)};
      e.virtual_deadline.ticks = static_cast<std::uint64_t>(scale(left, before, after).ticks);
    }
    if (e.owes_to == this) {
      const virtual_time v = virtual_now();
      const bool is_paid = !is_before(v, e.vruntime);
      e.vlag = is_paid ? virtual_span{0} : e.vlag;
      e.owes_to = is_paid ? nullptr : this;
      e.vruntime = is_paid ? e.vruntime : v + scale(e.vruntime - v, before, after);
    }
    e.vlag = scale(e.vlag, before, after);
    e.share = share;
    if (e.slice > 0) {
      set_request(e, e.slice);
    }
    return;
  }
  const virtual_time v = virtual_now();
  const bool has_window = &e == current_ && knobs_.window != window_rule::request && is_protected(e);
  save_lag(e);
  const bool is_waiting = e.where != place::nowhere;
  if (is_waiting) {
    waiting_.erase(e);
  }
  offsets_ -= static_cast<wide>(key(e).ticks) * before;
  e.virtual_deadline = v + scale(e.virtual_deadline - v, before, after);
  if (has_window) {
    e.window = v + scale(e.window - v, before, after);
  }
  e.is_window_open = false;
  e.vlag = scale(e.vlag, before, after);
  e.share = share;
  e.vruntime = v - e.vlag;
  set_request(e, e.slice);
  if (e.kind == policy::idle) {
    limit_request(e);
  }
  offsets_ += static_cast<wide>(key(e).ticks) * after;
  total_weight_ += after - before;
  if (is_waiting) {
    waiting_.insert(e);  // with its old sequence: it keeps its place among equals
  }
}

}  // namespace lagom::scheduler
