// SPDX-License-Identifier: BSL-1.0
#include "engine.hpp"

#include <algorithm>
#include <utility>

namespace lagom::sim {

using scheduler::joining;
using scheduler::leaving;
using scheduler::policy;

engine::engine(const workload& what, crew& all, const setup& how, placement& where, const faults& wrong)
    : what_(what), all_(all), how_(how), where_(where), wrong_(wrong), has_work_(all.workers.size()),
      monitor_tick_(how.monitor_tick), monitor_seen_(all.workers.size()), random_(how.seed) {
  for (const auto& w : all_.workers) {
    w->next_even_out = where.pull_interval() + static_cast<nanos>(w->index) * 1000;
  }
  populate();
}

void engine::post(nanos at, event_kind what, std::size_t index) { events_to_come_.push({at, ++order_, what, index}); }

// The worker's next turn; an earlier plan is void.
void engine::take_turn(worker& w, nanos at) {
  if (w.turn_at == at && at != now_) {
    return;
  }
  w.turn_at = at;
  w.turn_order = ++order_;
  if (at != never) {
    events_to_come_.push({at, w.turn_order, event_kind::turn, w.index});
  }
}

void engine::run() {
  for (const fiber& f : fibers_) {
    post(f.spec->start, event_kind::start, f.id);
  }
  for (std::size_t i = 0; i < what_.changes.size(); ++i) {
    post(what_.changes[i].at, event_kind::change, i);
  }
  std::vector<nanos> marks = what_.phases;
  marks.push_back(what_.warmup);
  std::sort(marks.begin(), marks.end());
  marks.erase(std::unique(marks.begin(), marks.end()), marks.end());
  for (const nanos at : marks) {
    post(at, event_kind::mark, 0);
  }
  for (std::size_t i = 0; i < periodic_.size(); ++i) {
    post(periodic_[i].interval, event_kind::periodic, i);
  }
  post(monitor_tick_, event_kind::monitor, 0);
  while (!events_to_come_.empty() && events_to_come_.top().at <= what_.duration) {
    const event e = events_to_come_.top();
    events_to_come_.pop();
    if (e.what == event_kind::turn && e.order != all_.workers[e.index]->turn_order) {
      continue;
    }
    now_ = all_.now = e.at;
    ++events_;
    happen(e);
  }
  now_ = all_.now = what_.duration;
  tell([&](observer& o) { o.mark(now_); });
  for (const auto& w : all_.workers) {
    pass_time(*w);
    if (w->running != nullptr) {
      w->queue.charge(now_);
      tell([&](observer& o) { o.stint(*w->running, *w, w->stint_began, now_, departure::displaced); });
    }
  }
}

void engine::happen(const event& e) {
  switch (e.what) {
    case event_kind::turn: {
      worker& w = *all_.workers[e.index];
      w.turn_at = never;
      return turn(w);
    }
    case event_kind::start: return start(fibers_[e.index]);
    case event_kind::change: return apply(what_.changes[e.index]);
    case event_kind::monitor: return look_after_all();
    case event_kind::mark:
      if (now_ < what_.duration) {
        for (const auto& w : all_.workers) {
          pass_time(*w);
        }
        tell([&](observer& o) { o.mark(now_); });
      }
      return;
    case event_kind::periodic:
      periodic_[e.index].what(now_);
      return post(now_ + periodic_[e.index].interval, event_kind::periodic, e.index);
  }
}

// runtime_core::commit, from a plain thread.
void engine::start(fiber& f) {
  f.state = stage::runnable;
  f.since = f.began = f.due = now_;
  route(f, joining::spawned, nullptr);
}

// --- changes while running -------------------------------------------------------------------------------------------

void engine::apply(const change& c) {
  for (fiber& f : fibers_) {
    if (f.is_measured && name_of(f) == c.who && f.state != stage::ended) {
      return apply_to(c, f);
    }
  }
}

void engine::apply_to(const change& c, fiber& f) {
  worker& w = *all_.workers[f.home == nobody ? 0 : f.home];
  bool wants_pick = false;
  f.nice = c.nice.value_or(f.nice);
  const policy kind = c.kind.value_or(f.kind);
  const scheduler::weight share = kind == policy::idle ? scheduler::idle_weight : scheduler::weight_of_nice(f.nice);
  if (kind != f.kind) {
    wants_pick = w.queue.set_policy(f, kind, share, now_);
  } else if (share != f.share) {
    wants_pick = w.queue.reweight(f, share, now_);
  }
  if (c.slice) {
    w.queue.set_slice(f, *c.slice, now_);
  }
  f.clamp.min = static_cast<std::uint16_t>(c.util_min.value_or(f.clamp.min));
  f.clamp.max = static_cast<std::uint16_t>(c.util_max.value_or(f.clamp.max));
  if (c.affinity) {
    f.allowed = *c.affinity;
    move_off(f);
  }
  w.resched |= wants_pick;
  w.look_again = now_;
  publish(w);
  if (w.running != nullptr) {
    plan(w);
  }
}

// Its worker is no longer among the allowed ones: it moves at once if it waits, else when it comes by.
void engine::move_off(fiber& f) {
  if (f.home == nobody || f.may_run_on(f.home)) {
    return;
  }
  worker& w = *all_.workers[f.home];
  if (w.running == &f) {
    w.resched = true;
  } else if (f.on_rq && !f.delayed) {
    depart(w, f);
    w.queue.dequeue(f, leaving::migrated, now_);
    route(f, joining::migrated, nullptr);
  }
}

// --- the monitor -------------------------------------------------------------------------------------------------------

// monitor::run
void engine::look_after_all() {
  const bool all_sleep = all_.idle.count() == all_.workers.size();
  if (all_sleep && monitor_tick_ >= how_.monitor_tick_max) {
    monitor_sleeps_ = true;
    return;
  }
  bool soon = false;
  for (const auto& w : all_.workers) {
    const bool has_work = w->waiting > 0 || !w->inbox.empty();
    attend(*w);
    soon |= has_work;
  }
  remind();
  const nanos most = somebody_waits_ && where_.pull_interval() > 0 ? where_.pull_interval() : how_.monitor_tick_max;
  monitor_tick_ = soon && all_.idle.count() != 0 ? how_.monitor_tick : std::min(monitor_tick_ * 2, most);
  // A thread that sleeps wakes up late; in step with the slices it would always see the same.
  post(now_ + monitor_tick_ + random_.between(0, 2 * all_.price.wake), event_kind::monitor, 0);
}

// monitor::remind: who is alone on its worker asks nobody at its checkpoints, so it is told to compare loads.
void engine::remind() {
  if (where_.pull_interval() == 0) {
    return;
  }
  // On a machine of several speeds who is alone may still be on the wrong CPU.
  somebody_waits_ = all_.map().is_hybrid ||
                    std::any_of(all_.workers.begin(), all_.workers.end(), [](const auto& w) { return w->waiting > 0; });
  if (!somebody_waits_ || now_ < next_reminder_) {
    return;
  }
  next_reminder_ = now_ + where_.pull_interval();
  for (const auto& w : all_.workers) {
    if (w->waiting == 0 && w->running != nullptr) {
      w->resched = true;
      plan(*w);
    }
  }
}

// worker::helper_for_bound: those tied to some workers, not to be had by just anybody who is called.
void engine::call_for_bound(worker& w) {
  unsigned helper = nobody;
  static_cast<void>(w.queue.steal_candidate([&](scheduler::entity& e) {
    const auto& f = static_cast<const fiber&>(e);
    if (f.is_pinned || f.allowed.empty()) {
      return false;
    }
    const auto may_come = [&](unsigned other) { return other != w.index && f.may_run_on(other) && all_.claim(other); };
    const auto found = std::find_if(w.ring.begin(), w.ring.end(), may_come);
    helper = found == w.ring.end() ? nobody : *found;
    return helper != nobody;
  }));
  if (helper != nobody) {
    make_searcher(helper);
  }
}

void engine::nudge_monitor() {
  if (monitor_sleeps_) {
    monitor_sleeps_ = false;
    monitor_tick_ = how_.monitor_tick;
    post(now_ + monitor_tick_, event_kind::monitor, 0);
  }
}

// monitor::attend
void engine::attend(worker& w) {
  const bool stands_still = w.steps == monitor_seen_[w.index] && !all_.is_idle(w.index);
  monitor_seen_[w.index] = w.steps;
  if (stands_still && w.running != nullptr) {
    while (w.next_alarm() <= now_) {
      fiber& f = *w.alarms.front().who;
      std::pop_heap(w.alarms.begin(), w.alarms.end(), [](const alarm& a, const alarm& b) {
        return std::pair(a.at, a.order) > std::pair(b.at, b.order);
      });
      w.alarms.pop_back();
      unpark(f, nullptr);
    }
  }
  if ((w.waiting == 0 && w.inbox.empty()) || all_.idle.count() == 0 || wrong_.never_steals) {
    return;
  }
  if ((stands_still || w.is_overloaded) && w.waiting + w.inbox.size() > w.bound) {
    const auto searchers = std::exchange(all_.searchers, 0U);  // the monitor calls one in any case
    const unsigned helper = where_.helper(all_, w);
    all_.searchers = searchers;
    if (helper != nobody) {
      make_searcher(helper);
    }
  }
  if (w.bound != 0) {
    call_for_bound(w);
  }
}

}  // namespace lagom::sim
