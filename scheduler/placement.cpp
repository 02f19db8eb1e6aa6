// SPDX-License-Identifier: BSL-1.0
// Where on the virtual line an entity lands when it joins, and what it takes along when it leaves.
#include "run_queue_inline.hpp"

namespace lagom::scheduler {

namespace {

// A debt, worked off by the virtual time that has passed since; never turned into credit.
virtual_span repaid(virtual_span debt, virtual_span passed) {
  assert(debt.ticks < 0);
  return passed.ticks <= 0 ? debt : std::min(virtual_span{0}, debt + passed);
}

}  // namespace

virtual_span run_queue::lag_limit(const entity& e, nanos granularity) const {
  if (knobs_.lag_limit == lag_rule::twice_own_slice) {
    return to_virtual(std::max(2 * nanos{e.slice}, granularity), e.share);
  }
  return to_virtual(longest_queued_slice() + granularity, e.share);
}

// Stores e's lag, within its limits. True if what is stored is not simply V - vruntime, so e has to be placed again.
bool run_queue::save_lag(entity& e) {
  const virtual_time v = virtual_now();
  const virtual_span actual = v - e.vruntime;
  virtual_span lag = actual;
  // Either limit is at least one request of its own; the exact one costs a search and a division.
  if (actual > e.request) {
    lag = std::min(actual, lag_limit(e, knobs_.credit_granularity));
  } else if (actual < -e.request) {
    lag = std::max(actual, -lag_limit(e, knobs_.debt_granularity));
  }
  if (e.delayed && knobs_.delayed_lag == delayed_rule::never_grows) {
    lag = std::max(lag, e.vlag);
    lag = std::min(lag, knobs_.delay_zero ? virtual_span{0} : lag_limit(e, knobs_.credit_granularity));
  }
  e.vlag = lag;
  return lag != actual;
}

// e is not counted yet. After it has joined, V has moved by its weight times its lag; placed at V - lag it would end with
// less lag than it came with, most of all a heavy one. Inflated by (W + w) / W it ends with exactly what it had.
void run_queue::join(entity& e, joining why) {
  assert(!e.on_rq);
  assert(e.where == place::nowhere);
  const virtual_time v = virtual_now();
  move_origin(v);
  set_request(e, e.has_custom_slice ? e.slice : knobs_.base_slice);
  if (why == joining::woken && knobs_.repay_asleep && e.vlag.ticks < 0 && e.left_queue == this) {
    e.vlag = repaid(e.vlag, v - e.left_at);
  }
  virtual_span inflated{0};
  if (total_weight_ != 0 && knobs_.place_lag && e.vlag.ticks != 0) {
    inflated = e.vlag + scale(e.vlag, e.share.scaled, total_weight_);
  }
  e.vruntime = v - inflated;
  if (e.deadline_is_relative && knobs_.place_rel_deadline) {
    e.virtual_deadline = e.vruntime + virtual_span{static_cast<std::int64_t>(e.virtual_deadline.ticks)};
  } else {
    const bool is_half = why == joining::spawned && knobs_.place_deadline_initial;
    e.virtual_deadline = e.vruntime + (is_half ? virtual_span{e.request.ticks / 2} : e.request);
  }
  e.deadline_is_relative = false;
  e.left_queue = nullptr;
  e.on_rq = true;
  ++queued_;
  delayed_ += e.delayed ? 1 : 0;
  add_to_sums(e);
  if (&e != current_) {
    insert(e);
  }
}

void run_queue::take_out(entity& e) {
  assert(e.on_rq);
  assert(queued_ > 0);
  if (&e != current_) {
    waiting_.erase(e);
  }
  e.on_rq = false;
  --queued_;
  assert(!e.delayed || delayed_ > 0);
  delayed_ -= e.delayed ? 1 : 0;
  remove_from_sums(e);
}

void run_queue::leave(entity& e, leaving why) {
  save_lag(e);
  if (e.delayed && knobs_.delayed_lag == delayed_rule::cut_credit && knobs_.delay_zero) {
    e.vlag = std::min(e.vlag, virtual_span{0});
  }
  if (buddy_ == &e) {
    buddy_ = nullptr;
  }
  take_out(e);
  if (why == leaving::migrated) {
    if (knobs_.place_rel_deadline) {
      e.virtual_deadline.ticks -= e.vruntime.ticks;
      e.deadline_is_relative = true;
    }
    return;
  }
  e.delayed = false;
  if (knobs_.repay_asleep && e.vlag.ticks < 0) {
    e.left_queue = this;
    e.left_at = virtual_now();
  }
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
  }
}

// Everything is rescaled about V, which stays where it is; lag and what is left of the request keep their real length.
void run_queue::rescale(entity& e, weight share) {
  const std::uint64_t before = e.share.scaled;
  const std::uint64_t after = share.scaled;
  if (!e.on_rq) {
    if (e.deadline_is_relative) {
      const virtual_span left{static_cast<std::int64_t>(e.virtual_deadline.ticks)};
      e.virtual_deadline.ticks = static_cast<std::uint64_t>(scale(left, before, after).ticks);
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
  offsets_ -= static_cast<wide>(key(e).ticks) * static_cast<wide>(before);
  e.virtual_deadline = v + scale(e.virtual_deadline - v, before, after);
  if (has_window) {
    e.window = v + scale(e.window - v, before, after);
  }
  e.is_window_open = false;
  e.vlag = scale(e.vlag, before, after);
  e.share = share;
  e.vruntime = v - e.vlag;
  set_request(e, e.slice);
  offsets_ += static_cast<wide>(key(e).ticks) * static_cast<wide>(after);
  total_weight_ += after - before;
  if (is_waiting) {
    waiting_.insert(e);  // with its old sequence: it keeps its place among equals
  }
}

}  // namespace lagom::scheduler
