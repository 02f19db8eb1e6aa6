// SPDX-License-Identifier: BSL-1.0
#pragma once

// The part of run_queue that every step of a worker goes through, inline: a yield is to cost little more than the switch
// of stacks, and with position-independent code a call of another member is never expanded by the compiler itself.
// Only the sources of run_queue include this.

#include <algorithm>

#include "arithmetic.hpp"
#include "run_queue.hpp"

namespace lagom::scheduler {

// --- V and the sums --------------------------------------------------------------------------------------------------

inline void run_queue::move_origin(virtual_time to) {
  offsets_ -= static_cast<wide>((to - origin_).ticks) * total_weight_;
  origin_ = to;
}

inline void run_queue::add_to_sums(const entity& e) {
  offsets_ += static_cast<wide>(key(e).ticks) * e.share.scaled;
  total_weight_ += e.share.scaled;
}

inline void run_queue::remove_from_sums(const entity& e) {
  assert(total_weight_ >= e.share.scaled);
  offsets_ -= static_cast<wide>(key(e).ticks) * e.share.scaled;
  total_weight_ -= e.share.scaled;
  if (total_weight_ == 0) {  // an empty queue stands where its last entity left it
    assert(offsets_ == 0);
    origin_ = e.vruntime;
  }
}

inline void run_queue::move(entity& e, virtual_span by) {
  e.vruntime = e.vruntime + by;
  if (e.on_rq) [[likely]] {
    offsets_ += static_cast<wide>(by.ticks) * e.share.scaled;
  }
}

// --- requests ----------------------------------------------------------------------------------------------------------

inline void run_queue::set_request(entity& e, nanos slice) {
  assert(slice > 0);
  assert(slice <= slice_limit);
  e.slice = static_cast<std::uint32_t>(slice);
  e.request = to_virtual(slice, e.share);
}

// A new request begins at the current vruntime: an overrun shifts all later virtual deadlines, nothing is caught up.
inline void run_queue::renew(entity& e) {
  if (!e.has_custom_slice && e.slice != knobs_.base_slice) [[unlikely]] {
    set_request(e, knobs_.base_slice);
  }
  assert(e.request.ticks > 0);
  e.virtual_deadline = e.vruntime + e.request;
  if (e.kind == policy::idle) [[unlikely]] {
    renew_idle(e);
  }
  // The origin follows V when the current entity has left it far behind, so that offsets_ mostly fits in 64 bits.
  constexpr std::int64_t slack = std::int64_t{1} << 36;
  if (key(e) > virtual_span{slack} || key(e) < virtual_span{-slack}) [[unlikely]] {
    renew_far(e);
  }
}

inline bool run_queue::renew_if_over(entity& e) {
  if (is_before(e.vruntime, e.virtual_deadline)) {
    return false;
  }
  renew(e);
  return true;
}

// A window that ended so long ago that the wrap would soon put it into the future stays at half that distance.
inline constexpr virtual_span long_ago{std::int64_t{1} << 59};
inline void keep_window_behind(entity& e) {
  if ((e.vruntime - e.window).ticks > 2 * long_ago.ticks) [[unlikely]] {
    e.window = e.vruntime - long_ago;
  }
}

// --- accounting --------------------------------------------------------------------------------------------------------

inline bool run_queue::is_protected(const entity& e) const {
  if (knobs_.window == window_rule::request) [[unlikely]] {
    return knobs_.run_to_parity && e.is_window_open && e.window == e.virtual_deadline;
  }
  return is_before(e.vruntime, e.window);
}

inline void run_queue::account(entity& e, nanos ran) {
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
    if (renew_if_over(e)) {
      keep_window_behind(e);
    }
    return;
  }
  const bool is_displaceable =
      knobs_.window == window_rule::request
          ? knobs_.preempt_short && !(e.is_window_open && e.window == e.virtual_deadline) && !is_eligible(e)
          : !is_protected(e);
  const bool is_over = renew_if_over(e);
  if ((is_over || is_displaceable) && queued_ > 1) {
    need_resched_ = true;
    if (buddy_ == &e) [[unlikely]] {
      buddy_ = nullptr;
    }
  }
}

inline void run_queue::account_until(nanos now) {
  const nanos ran = now - charged_until_;
  if (ran > 0) [[likely]] {
    charged_until_ = now;
    if (current_ != nullptr) {
      account(*current_, ran);
    }
  }
}

// Ineligible by no more than features::yield_granularity.
inline bool run_queue::owes_little(const entity& e) const {
  const virtual_span tolerated = to_virtual(knobs_.yield_granularity, e.share);
  return offsets_ >= static_cast<wide>((key(e) - tolerated).ticks) * total_weight_;
}

inline void run_queue::forfeit() {
  if (queued_ < 2 || current_ == nullptr) {
    return;
  }
  entity& e = *current_;
  if (knobs_.yield_mode == yield_rule::deadline) [[unlikely]] {
    e.virtual_deadline = e.virtual_deadline + e.request;
  } else if (is_eligible(e) || knobs_.yield_mode == yield_rule::forfeit_always || owes_little(e)) {
    move(e, e.virtual_deadline - e.vruntime);
    renew(e);
  }
}

// --- picking -----------------------------------------------------------------------------------------------------------

// Nobody asks for less, so e is protected for its whole request.
inline bool run_queue::has_whole_window(const entity& e) const {
  return knobs_.run_to_parity && knobs_.window == window_rule::shortest_slice && waiting_.has_no_slice_below(e.slice);
}

inline void run_queue::protect(entity& e) {
  e.is_window_open = true;
  e.window = knobs_.window == window_rule::request || has_whole_window(e) ? e.virtual_deadline
                                                                          : window_end(e, moment::pick);
}

inline void run_queue::tighten_window(entity& e) {
  assert(knobs_.window != window_rule::request);
  e.window = earlier(e.window, has_whole_window(e) ? e.virtual_deadline : window_end(e, moment::failed_preemption));
}

inline void run_queue::insert(entity& e) {
  e.sequence = ++last_sequence_;
  waiting_.insert(e);
}

inline entity* run_queue::choose(honour what) {
  entity* c = current_ != nullptr && current_->on_rq ? current_ : nullptr;
  if (queued_ < 2) {
    return queued_ == 0 || c != nullptr ? c : &waiting_.only();
  }
  if (buddy_ != nullptr && knobs_.pick_buddy && what == honour::protection && is_eligible(*buddy_)) [[unlikely]] {
    return buddy_;
  }
  if (c != nullptr && !is_eligible(*c)) {
    c = nullptr;
  }
  if (c != nullptr && what == honour::protection && is_protected(*c)) {
    return c;
  }
  entity& earliest = waiting_.earliest();
  entity* best = is_eligible(earliest) ? &earliest : first_eligible();
  assert(best != nullptr || c != nullptr);  // the mean is never below the least
  if (best == nullptr) {
    return c;
  }
  return c != nullptr && is_before(c->virtual_deadline, best->virtual_deadline) ? c : best;
}

inline entity* run_queue::choose_runnable(honour what) {
  entity* chosen = choose(what);
  return chosen == nullptr || !chosen->delayed ? chosen : drop_sleepers(*chosen, what);
}

inline entity* run_queue::switch_to(entity* next) {
  need_resched_ = false;
  if (next == current_) {
    if (next != nullptr && next->kind == policy::idle) [[unlikely]] {
      shorten_request(*next);
    }
    if (next != nullptr && knobs_.repick_protect) [[unlikely]] {
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
    if (buddy_ == next) [[unlikely]] {
      buddy_ = nullptr;
    }
    if (next->kind == policy::idle) [[unlikely]] {
      shorten_request(*next);
    }
    protect(*next);
  }
  return next;
}

// --- joining and leaving ---------------------------------------------------------------------------------------------

// Stores e's lag, within its limits. True if what is stored is not simply V - vruntime, so e has to be placed again.
inline bool run_queue::save_lag(entity& e) {
  const virtual_span actual = virtual_now() - e.vruntime;
  // Either limit is at least one request of its own; the exact one costs a search and a division.
  const bool is_plain = !e.delayed && actual <= e.request && actual >= -e.request;
  e.vlag = is_plain ? actual : permitted_lag(e, actual);
  return e.vlag != actual;
}

// e is not counted yet. After it has joined, V has moved by its weight times its lag; placed at V - lag it would end with
// less lag than it came with, most of all a heavy one. Inflated by (W + w) / W it ends with exactly what it had.
inline void run_queue::join(entity& e, joining why) {
  assert(!e.on_rq);
  assert(e.where == place::nowhere);
  const virtual_time v = virtual_now();
  move_origin(v);
  set_request(e, e.has_custom_slice ? e.slice : knobs_.base_slice);
  if (e.kind == policy::idle) [[unlikely]] {
    prepare_idle(e, why);
  }
  e.vruntime = total_weight_ == 0 || !knobs_.place_lag || e.vlag.ticks == 0 ? v
               : e.owes_to == this && why == joining::woken
                   ? place_debtor(e)
                   : v - e.vlag - scale(e.vlag, e.share.scaled, total_weight_);
  e.owes_to = nullptr;
  if (e.deadline_is_relative && knobs_.place_rel_deadline) [[unlikely]] {
    e.virtual_deadline = e.vruntime + virtual_span{static_cast<std::int64_t>(e.virtual_deadline.ticks)};
  } else {
    const bool is_half = why == joining::spawned && knobs_.place_deadline_initial;
    e.virtual_deadline = e.vruntime + (is_half ? virtual_span{e.request.ticks / 2} : e.request);
  }
  e.deadline_is_relative = false;
  e.on_rq = true;
  ++queued_;
  delayed_ += e.delayed ? 1 : 0;
  add_to_sums(e);
  if (&e != current_) [[likely]] {
    insert(e);
  }
}

inline void run_queue::take_out(entity& e) {
  assert(e.on_rq);
  assert(queued_ > 0);
  if (&e != current_) {
    waiting_.erase(e);
  }
  e.on_rq = false;
  if (e.kind == policy::idle) [[unlikely]] {
    idle_ -= e.delayed ? 0 : 1;
  }
  --queued_;
  assert(!e.delayed || delayed_ > 0);
  delayed_ -= e.delayed ? 1 : 0;
  remove_from_sums(e);
}

inline void run_queue::leave(entity& e, leaving why) {
  save_lag(e);
  if (e.delayed && knobs_.delayed_lag == delayed_rule::cut_credit && knobs_.delay_zero) [[unlikely]] {
    e.vlag = std::min(e.vlag, virtual_span{0});
  }
  if (buddy_ == &e) [[unlikely]] {
    buddy_ = nullptr;
  }
  take_out(e);
  if (why != leaving::migrated) {
    e.delayed = false;
    e.owes_to = knobs_.repay_asleep && e.vlag.ticks < 0 ? this : nullptr;
  } else if (knobs_.place_rel_deadline) {
    e.virtual_deadline.ticks -= e.vruntime.ticks;
    e.deadline_is_relative = true;
  }
}

// --- wakeup preemption -----------------------------------------------------------------------------------------------

// By the rules from 6.17 on: e, which does not ask for less than the current entity, displaces it if it would be the pick.
inline bool run_queue::preempts_by_pick(entity& e, joining why) {
  entity& c = *current_;
  if (knobs_.wakeup_granularity != 0 && is_protected(c)) {
    // The pick is put off, not called off: it comes when the window ends. An eligible one keeps its window as it is.
    if (!is_eligible(c)) {
      c.window = earlier(c.window, c.vruntime + to_virtual(knobs_.wakeup_granularity, c.share));
    }
    return false;
  }
  if (why != joining::spawned || knobs_.fork_preempt) {
    // A sleeper that has paid its debt must not hide e (7.1).
    const bool drops_sleepers = knobs_.delayed_lag == delayed_rule::never_grows;
    if ((drops_sleepers ? choose_runnable(honour::protection) : choose(honour::protection)) == &e) {
      return true;
    }
  }
  if (knobs_.run_to_parity) {
    tighten_window(*current_);
  }
  return false;
}

// Whether e, which has just joined, displaces the current entity; if so a reschedule is asked for.
inline bool run_queue::check_preemption(entity& e, joining why) {
  if (current_ == nullptr) {
    return true;  // nothing to displace, somebody to run
  }
  entity& c = *current_;
  const bool decides_again = knobs_.window == window_rule::eligibility && knobs_.preempt_short;
  if (&e == &c || e.delayed || (need_resched_ && !decides_again) || !knobs_.wakeup_preemption) {
    return false;
  }
  bool preempts = false;
  if (c.kind == policy::idle || e.kind != policy::normal) [[unlikely]] {
    preempts = c.kind == policy::idle && e.kind != policy::idle;  // at once; and idle and batch never preempt
    if (preempts) {
      end_protection(c);
    }
  } else if (knobs_.window == window_rule::request) [[unlikely]] {
    preempts = preempts_by_request(e);
  } else {
    preempts = knobs_.preempt_short && e.slice < c.slice ? preempts_short(e) : preempts_by_pick(e, why);
  }
  need_resched_ |= preempts;
  return preempts;
}

}  // namespace lagom::scheduler
