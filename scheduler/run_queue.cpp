// SPDX-License-Identifier: BSL-1.0
#include "run_queue.hpp"

#include <algorithm>

#include "arithmetic.hpp"

namespace lagom::scheduler {

namespace {

// Nobody gets further than this from the origin, whatever overruns: signed distances stay true. At nice 0 it takes 26
// days of running while others wait, at weight 3 two hours; what is beyond is forgiven.
constexpr std::int64_t horizon = std::int64_t{1} << 61;
// The origin follows V when the current entity has left it this far behind, so that offsets_ mostly fits in 64 bits.
constexpr std::int64_t origin_slack = std::int64_t{1} << 36;
// A stint longer than this (8 h at weight 3, 50 days at nice 0) may wrap around the virtual line.
constexpr std::int64_t longest_move = std::int64_t{1} << 60;

}  // namespace

run_queue::run_queue(const features& knobs, virtual_time start) noexcept : origin_(start), knobs_(knobs) {
  assert(knobs.base_slice > 0);
  assert(knobs.slice_min > 0);
  assert(knobs.slice_min <= knobs.slice_max);
}

// --- V ---------------------------------------------------------------------------------------------------------------

bool run_queue::is_eligible(const entity& e) const {
  // lag >= 0 without the division of V, which would round away what decides.
  return static_cast<wide>(key(e).ticks) * static_cast<wide>(total_weight_) <= offsets_;
}

virtual_time run_queue::virtual_now() const {
  if (offsets_ == 0) {
    return origin_;
  }
  return origin_ + virtual_span{floor_divide(offsets_, total_weight_)};
}

nanos run_queue::service_lag(const entity& e) const {
  assert(e.on_rq);
  const wide mean = offsets_ * static_cast<wide>(e.share.scaled);
  const auto total = static_cast<wide>(total_weight_);
  const wide mean_floor = mean / total - (mean % total < 0 ? 1 : 0);
  const wide lag = mean_floor - static_cast<wide>(key(e).ticks) * static_cast<wide>(e.share.scaled);
  return static_cast<nanos>(lag >> 30);  // an arithmetic shift: floor
}

void run_queue::move_origin(virtual_time to) {
  offsets_ -= static_cast<wide>((to - origin_).ticks) * static_cast<wide>(total_weight_);
  origin_ = to;
}

void run_queue::add_to_sums(const entity& e) {
  offsets_ += static_cast<wide>(key(e).ticks) * static_cast<wide>(e.share.scaled);
  total_weight_ += e.share.scaled;
}

void run_queue::remove_from_sums(const entity& e) {
  assert(total_weight_ >= e.share.scaled);
  offsets_ -= static_cast<wide>(key(e).ticks) * static_cast<wide>(e.share.scaled);
  total_weight_ -= e.share.scaled;
  if (total_weight_ == 0) {  // an empty queue stands where its last entity left it
    assert(offsets_ == 0);
    origin_ = e.vruntime;
  }
}

void run_queue::move(entity& e, virtual_span by) {
  e.vruntime = e.vruntime + by;
  if (e.on_rq) {
    offsets_ += static_cast<wide>(by.ticks) * static_cast<wide>(e.share.scaled);
  }
}

nanos run_queue::shortest_slice() const {
  const bool is_current_queued = current_ != nullptr && current_->on_rq;
  if (!is_current_queued) {
    return waiting_.shortest_slice();
  }
  return waiting_.is_empty() ? current_->slice : std::min(current_->slice, waiting_.shortest_slice());
}

nanos run_queue::longest_slice() const {
  const bool is_current_queued = current_ != nullptr && current_->on_rq;
  if (!is_current_queued) {
    return waiting_.longest_slice();
  }
  return waiting_.is_empty() ? current_->slice : std::max(current_->slice, waiting_.longest_slice());
}

// --- requests ----------------------------------------------------------------------------------------------------------

void run_queue::set_request(entity& e, nanos slice) {
  assert(slice > 0);
  e.slice = slice;
  e.request = to_virtual(slice, e.share);
}

// A new request begins at the current vruntime: an overrun shifts all later virtual deadlines, nothing is caught up.
void run_queue::renew(entity& e) {
  if (!e.has_custom_slice && e.slice != knobs_.base_slice) {
    set_request(e, knobs_.base_slice);
  }
  assert(e.request.ticks > 0);
  e.virtual_deadline = e.vruntime + e.request;
  const std::int64_t distance = key(e).ticks;
  if (distance > origin_slack || distance < -origin_slack) [[unlikely]] {
    move_origin(virtual_now());
    const virtual_span too_far = key(e) - virtual_span{horizon};
    if (too_far.ticks > 0) {
      move(e, -too_far);
      e.virtual_deadline = e.virtual_deadline - too_far;
    }
  }
  if ((e.vruntime - e.window).ticks > longest_move) [[unlikely]] {
    e.window = e.vruntime;  // long over; if it fell further behind it would appear in the future
  }
}

bool run_queue::renew_if_over(entity& e) {
  if (is_before(e.vruntime, e.virtual_deadline)) {
    return false;
  }
  renew(e);
  return true;
}

// --- accounting --------------------------------------------------------------------------------------------------------

// A stint so long that the virtual line may not have room for it: alone, the entity takes V along as far as it likes.
void run_queue::account_long(entity& e, nanos ran) {
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
  e.window = e.vruntime;
  e.is_window_open = false;
}

void run_queue::account(entity& e, nanos ran) {
  assert(ran > 0);
  e.sum_exec += ran;
  if (ran <= short_run) [[likely]] {
    move(e, to_virtual(ran, e.share));
  } else {
    account_long(e, ran);
  }
  if (queued_ == 1 && e.on_rq) {  // V is its vruntime: nothing to decide, nothing to divide
    origin_ = e.vruntime;
    offsets_ = 0;
    renew_if_over(e);
    return;
  }
  const bool is_displaceable =
      knobs_.window == window_rule::request
          ? knobs_.preempt_short && !(e.is_window_open && e.window == e.virtual_deadline) && !is_eligible(e)
          : !is_protected(e);
  const bool is_over = renew_if_over(e);
  if ((is_over || is_displaceable) && queued_ > 1) {
    need_resched_ = true;
    if (buddy_ == &e) {
      buddy_ = nullptr;
    }
  }
}

bool run_queue::charge(nanos now) {
  const nanos ran = now - charged_until_;
  if (ran > 0) {
    charged_until_ = now;
    if (current_ != nullptr) {
      account(*current_, ran);
    }
  }
  return need_resched_;
}

nanos run_queue::time_left() const {
  assert(current_ != nullptr);
  const entity& e = *current_;
  virtual_time stop = e.virtual_deadline;
  if (knobs_.window != window_rule::request && is_protected(e)) {
    stop = earlier(stop, e.window);
  }
  const wide left = static_cast<wide>((stop - e.vruntime).ticks) * static_cast<wide>(e.share.scaled);
  const wide ran = -((-left) >> 30);  // rounded up: after it the point is reached
  return ran < 1 ? 1 : static_cast<nanos>(ran);
}

// --- picking -----------------------------------------------------------------------------------------------------------

void run_queue::insert(entity& e) {
  e.sequence = ++last_sequence_;
  waiting_.insert(e);
}

entity* run_queue::choose(honour what) {
  entity* c = current_ != nullptr && current_->on_rq ? current_ : nullptr;
  if (queued_ < 2) {
    return queued_ == 0 || c != nullptr ? c : &waiting_.only();
  }
  if (buddy_ != nullptr && knobs_.pick_buddy && what == honour::protection && is_eligible(*buddy_)) {
    return buddy_;
  }
  if (c != nullptr && !is_eligible(*c)) {
    c = nullptr;
  }
  if (c != nullptr && what == honour::protection && is_protected(*c)) {
    return c;
  }
  entity* best = waiting_.is_all_in_front() && is_eligible(waiting_.head()) ? &waiting_.head()
                                                                            : waiting_.first_eligible(virtual_now());
  assert(best != nullptr || c != nullptr);  // the mean is never below the least
  if (best == nullptr) {
    return c;
  }
  return c != nullptr && is_before(c->virtual_deadline, best->virtual_deadline) ? c : best;
}

entity* run_queue::choose_runnable(honour what) {
  entity* chosen = choose(what);
  while (chosen != nullptr && chosen->delayed) {  // a sleeper that was paying its debt: now it is paid
    leave(*chosen, leaving::parked);
    chosen = choose(what);
  }
  return chosen;
}

entity* run_queue::pick(nanos now) {
  charge(now);
  entity* next = choose_runnable(honour::protection);
  need_resched_ = false;
  if (next == current_) {
    if (next != nullptr && knobs_.repick_protect) {
      protect(*next);
    }
    return next;
  }
  if (next != nullptr) {
    waiting_.erase(*next);
  }
  if (current_ != nullptr && current_->on_rq) {
    insert(*current_);  // the last among equals
  }
  current_ = next;
  if (next != nullptr) {
    if (buddy_ == next) {
      buddy_ = nullptr;
    }
    protect(*next);
  }
  return next;
}

// --- the other verbs -----------------------------------------------------------------------------------------------------

bool run_queue::enqueue(entity& e, joining why, nanos now) {
  charge(now);
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
  charge(now);
  if (why == leaving::parked) {
    assert(&e == current_);
    if (knobs_.delay_dequeue && !is_eligible(e)) {
      save_lag(e);
      e.delayed = true;
      ++delayed_;
      if (buddy_ == &e) {
        buddy_ = nullptr;
      }
      return;
    }
  }
  leave(e, why);
}

void run_queue::yield(nanos now) {
  charge(now);
  if (queued_ < 2 || current_ == nullptr) {
    return;
  }
  entity& e = *current_;
  if (knobs_.yield_mode == yield_rule::deadline) {
    e.virtual_deadline = e.virtual_deadline + e.request;
  } else if (knobs_.yield_mode == yield_rule::forfeit_always || is_eligible(e)) {
    move(e, e.virtual_deadline - e.vruntime);
    renew(e);
  }
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

entity* run_queue::yield_and_pick(nanos now) {
  yield(now);
  return pick(now);
}

entity* run_queue::park_and_pick(nanos now) {
  assert(current_ != nullptr);
  dequeue(*current_, leaving::parked, now);
  return pick(now);
}

bool run_queue::reweight(entity& e, weight share, nanos now) {
  assert(share.scaled > 0);
  charge(now);
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
  charge(now);
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
  return check_preemption(e, joining::migrated);
}

void run_queue::set_slice(entity& e, nanos slice, nanos now) {
  assert(slice >= 0);
  charge(now);
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
  knobs_.base_slice = slice;
}

}  // namespace lagom::scheduler
