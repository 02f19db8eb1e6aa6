// SPDX-License-Identifier: BSL-1.0
#include "replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace lagom::sim {

using scheduler::joining;
using scheduler::leaving;
using scheduler::policy;

namespace {

policy policy_of(bool is_idle, bool is_batch) {
  return is_idle ? policy::idle : is_batch ? policy::batch : policy::normal;
}

// Service lags of crowds cost O(n) at each pick.
constexpr std::size_t most_with_lags = 64;

}  // namespace

replay::replay(const scenario& what) : scenario_(what), queue_(what.settings.knobs) {}

json replay::run() {
  json steps = json::array();
  const report_rule report = scenario_.settings.state;
  for (std::size_t i = 0; i < scenario_.steps.size(); ++i) {
    const step& s = scenario_.steps[i];
    for (std::int64_t round = 0; round < s.repeat; ++round) {
      for (const event& e : s.events) {
        happen(e);
      }
    }
    if (report == report_rule::all || (report == report_rule::final && i + 1 == scenario_.steps.size())) {
      steps.push_back(snapshot(i, s.label));
    }
  }
  json result;
  result["steps"] = std::move(steps);
  result["switches"] = switches_;
  result["picks"] = picks();
  result["summary"] = summary();
  return result;
}

actor& replay::find(const event& e) {
  const auto found = places_.find(e.id);
  if (found == places_.end()) {
    throw input_error(e.where, fmt::format("no entity has the id \"{}\"; spawn it before", e.id));
  }
  return *in_order_[found->second];
}

actor& replay::queued_current(const event& e, const char* what) {
  if (current() == nullptr) {
    throw input_error(e.where, fmt::format("nobody is running who could {}", what));
  }
  if (!current()->on_rq) {
    throw input_error(e.where, fmt::format("\"{}\" runs on but was detached, so it cannot {}", current()->name, what));
  }
  return *current();
}

void replay::happen(const event& e) {
  switch (e.what) {
    case verb::run: return account(e.ns);
    case verb::loop: return loop(e);
    case verb::sched: return schedule();
    case verb::tick: return queue_.need_resched() ? schedule() : void();
    case verb::base: return queue_.set_default_slice(e.ns);
    case verb::spawn: return spawn(e);
    case verb::block: return block(e);
    case verb::exit: return exit(e);
    case verb::yield:
      queue_.yield(now_);
      return schedule();
    default: break;
  }
  actor& who = find(e);
  switch (e.what) {
    case verb::wake: return wake(who, joining::woken);
    case verb::yield_to: return queue_.yield_to(who, now_) ? schedule() : void();
    case verb::slice: return queue_.set_slice(who, e.ns, now_);
    case verb::idle: return change_idle(e, who);
    case verb::nice: return who.kind == policy::idle ? void() : decided(queue_.reweight(who, e.share, now_));
    case verb::weight: return decided(queue_.reweight(who, e.share, now_));
    case verb::detach:
      if (!who.on_rq) {
        throw input_error(e.where, fmt::format("\"{}\" is not queued, so it cannot be detached", who.name));
      }
      return queue_.dequeue(who, leaving::migrated, now_);
    default: break;
  }
  if (who.on_rq) {
    throw input_error(e.where, fmt::format("\"{}\" is queued already; detach it before", who.name));
  }
  decided(queue_.enqueue(who, joining::migrated, now_));
}

void replay::spawn(const event& e) {
  const auto found = places_.find(e.id);
  if (found != places_.end()) {
    const actor& old = *in_order_[found->second];
    if (old.on_rq || &old == current() || old.timers > 0) {
      throw input_error(e.where, fmt::format("\"{}\" exists already; take another id", e.id));
    }
  }
  actor& who = actors_.emplace_back();
  if (found != places_.end()) {
    in_order_[found->second] = &who;
  } else {
    places_[e.id] = in_order_.size();
    in_order_.push_back(&who);
  }
  who.name = e.id;
  who.is_batch = e.is_batch;
  who.kind = policy_of(e.is_idle, e.is_batch);
  who.share = e.share;
  who.burst = who.left = e.burst;
  who.sleep = e.sleep;
  who.vlag = {e.vlag * (std::int64_t{1} << scheduler::virtual_time_bits)};
  queue_.set_slice(who, e.slice, now_);
  wake(who, e.is_initial ? joining::spawned : joining::woken);
}

void replay::wake(actor& who, joining why) {
  if (who.on_rq && !who.delayed) {
    return;
  }
  who.woken_at = now_;
  decided(queue_.enqueue(who, why, now_));
}

void replay::block(const event& e) {
  queue_.dequeue(queued_current(e, "block"), leaving::parked, now_);
  schedule();
}

void replay::exit(const event& e) {
  queue_.dequeue(queued_current(e, "exit"), leaving::exited, now_);
  schedule();
}

void replay::change_idle(const event& e, actor& who) {
  const bool is_idle = e.on.value_or(who.kind == policy::idle);
  decided(queue_.set_policy(who, policy_of(is_idle, who.is_batch), e.share, now_));
}

// A decision to displace takes effect now or, in the manner of lazy preemption, at the next tick; an idle queue picks.
void replay::decided(bool wants_pick) {
  if (wants_pick && (current() == nullptr || scenario_.settings.resched == resched_rule::now)) {
    schedule();
  }
}

void replay::account(std::int64_t ns) {
  now_ += ns;
  if (current() != nullptr && ns > 0) {
    stints_.back().second += ns;
  }
  queue_.charge(now_);
}

void replay::note_lags() {
  if (in_order_.size() > most_with_lags) {
    return;
  }
  for (actor* who : in_order_) {
    if (who->on_rq) {
      const std::int64_t lag = queue_.service_lag(*who);
      who->lag_min = std::min(who->lag_min, lag);
      who->lag_max = std::max(who->lag_max, lag);
    }
  }
}

void replay::schedule() {
  const actor* before = current();
  auto* next = static_cast<actor*>(queue_.pick(now_));
  note_lags();
  if (next == before) {
    return;
  }
  ++switches_;
  if (next == nullptr) {
    return;
  }
  stints_.emplace_back(next, 0);
  ++next->picks;
  if (next->woken_at >= 0) {
    const std::int64_t waited = now_ - next->woken_at;
    ++next->waits;
    next->wait_sum += waited;
    next->wait_max = std::max(next->wait_max, waited);
    next->woken_at = -1;
  }
}

std::int64_t replay::next_loop_step(std::int64_t most) const {
  std::int64_t ran = most;
  if (current() != nullptr && current()->burst != 0) {
    ran = std::min(ran, current()->left);
  }
  if (!timers_.empty()) {
    ran = std::min(ran, std::max<std::int64_t>(0, timers_.front().at - now_));
  }
  return ran;
}

// The current one's burst may be over; sleepers may wake.
void replay::after_loop_step(std::int64_t ran) {
  actor* who = current();
  if (who != nullptr && who->burst != 0) {
    who->left -= ran;
    if (who->left == 0) {
      who->left = who->burst;
      const timer alarm{now_ + who->sleep, ++timer_order_, who};
      const auto later = [](const timer& a, const timer& b) { return std::tie(a.at, a.order) < std::tie(b.at, b.order); };
      timers_.insert(std::upper_bound(timers_.begin(), timers_.end(), alarm, later), alarm);
      ++who->timers;
      queue_.dequeue(*who, leaving::parked, now_);
      schedule();
    }
  }
  while (!timers_.empty() && timers_.front().at <= now_) {
    actor& sleeper = *timers_.front().who;
    timers_.erase(timers_.begin());
    --sleeper.timers;
    wake(sleeper, joining::woken);
  }
}

// Runs whoever is current for e.ns; with a tick the scheduler looks only then, without it at every deadline.
void replay::loop(const event& e) {
  const std::int64_t start = now_;
  const std::int64_t end = now_ + e.ns;
  const std::int64_t tick = e.tick.value_or(scenario_.settings.tick);
  if (current() != nullptr && !current()->on_rq) {
    queued_current(e, "loop");
  }
  if (queue_.need_resched()) {
    schedule();
  }
  while (now_ < end) {
    std::int64_t most = end - now_;
    if (tick != 0) {
      most = std::min(most, tick - (now_ - start) % tick);
    } else if (current() != nullptr && queue_.queued() > 1) {
      most = std::min(most, queue_.time_left());
    }
    const std::int64_t ran = next_loop_step(most);
    account(ran);
    after_loop_step(ran);
    const bool is_at_tick = tick == 0 || (now_ - start) % tick == 0;
    if (queue_.need_resched() && (scenario_.settings.resched == resched_rule::now || is_at_tick)) {
      schedule();
    }
  }
}

}  // namespace lagom::sim
