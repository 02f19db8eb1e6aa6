// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <utility>

#include "engine.hpp"

// What a worker does while it has fibers to run. Mirrors runtime/worker/switch.cpp and step().
namespace lagom::sim {

using scheduler::joining;
using scheduler::leaving;
using scheduler::policy;

namespace {

constexpr unsigned stint_shift = 3;
constexpr auto later = [](const alarm& a, const alarm& b) {
  return std::pair(a.at, a.order) > std::pair(b.at, b.order);
};

spending spending_of(const worker& w) {
  switch (w.state) {
    case doing::running:
      return w.running->kind == policy::normal  ? spending::normal
             : w.running->kind == policy::batch ? spending::batch
                                                : spending::idle_class;
    case doing::looking:
    case doing::spinning: return spending::searching;
    case doing::waking: return spending::waking;
    case doing::parked: return spending::asleep;
  }
  return spending::asleep;
}

}  // namespace

// Tells what the worker did since it was last asked. Before each change of its state.
void engine::pass_time(worker& w) {
  if (w.accounted_until < now_) {
    const nanos from = std::exchange(w.accounted_until, now_);
    tell([&](observer& o) { o.spent(w, spending_of(w), from, now_); });
  }
}

void engine::turn(worker& w) {
  pass_time(w);
  w.spent = 0;
  switch (w.state) {
    case doing::running: return look(w);
    case doing::spinning: return poll(w);
    case doing::parked:
    case doing::waking: get_up(w); return step(w);
    case doing::looking: return step(w);
  }
}

// worker::step, and the loop around it.
void engine::step(worker& w) {
  w.state = doing::looking;
  serve(w);
  empty_inbox(w);
  if (w.looks_for_normal) {
    w.looks_for_normal = false;
    if (all_.overloaded.count() > (w.is_overloaded ? 1U : 0U)) {
      steal(w, placement::loot_kind::normal_only);
    }
  }
  ++decisions_;
  auto* chosen = static_cast<fiber*>(w.queue.pick(now_));
  publish(w);
  if (chosen != nullptr) {
    stop_searching(w);
    ++switches_;
    w.spent += all_.price.change;
    return begin(w, *chosen);
  }
  if (steal(w, placement::loot_kind::anything)) {
    return step(w);  // at once: others look for loot as well
  }
  if (!spin(w)) {
    sleep(w);
  }
}

// worker::begin. What the switch cost is the fiber's: one reading of the clock serves both.
void engine::begin(worker& w, fiber& f) {
  const nanos waited = now_ - f.since;
  f.state = stage::running;
  f.home = w.index;
  f.since = now_;
  w.state = doing::running;
  w.running = &f;
  w.stint_began = now_;
  w.computes_from = w.grid_from = now_ + w.spent;
  w.look_again = w.waiting > 0 ? now_ + w.queue.time_left() : never;
  tell([&](observer& o) { o.began(f, w, now_, waited); });
  f.was_woken = false;
  f.has_run = true;
  if (f.left == 0) {
    return take_turn(w, std::max(w.computes_from, now_ + 1));
  }
  plan(w);
}

// Where the running fiber comes by next with something to look at (worker::should_yield).
nanos engine::next_checkpoint(const worker& w) const {
  if (!w.running->spec->does.polite) {
    return never;
  }
  nanos due = w.resched || !w.inbox.empty() ? now_ : never;
  due = std::min({due, w.waiting > 0 ? std::max(w.look_again, now_) : never, w.next_alarm()});
  if (due == never) {
    return never;
  }
  due = std::max({due, now_, w.grid_from});
  if (how_.tick > 0) {
    due = w.grid_from + std::max<nanos>((due - w.grid_from + how_.tick - 1) / how_.tick, 1) * how_.tick;
  }
  return due;
}

nanos engine::next_interrupt(const worker& w) const {
  const nanos soon = w.resched || !w.inbox.empty() ? now_ : std::max(w.next_alarm(), now_);
  const nanos tick = how_.tick > 0     ? (now_ / how_.tick + 1) * how_.tick
                     : w.waiting > 0 ? std::max(w.look_again, now_)
                                     : never;
  return std::min(soon, tick);
}

// The next turn: when the running fiber is through with its computation, or earlier.
void engine::plan(worker& w) {
  const fiber& f = *w.running;
  nanos next = never;
  if (f.left < never / 2) {
    next = w.computes_from + (f.left + w.capacity - 1) / w.capacity;
  }
  if (f.left != 0) {
    next = std::min(next, how_.when == displacement::interrupts ? next_interrupt(w) : next_checkpoint(w));
  }
  take_turn(w, next);
}

void engine::look(worker& w) {
  fiber& f = *w.running;
  if (now_ > w.computes_from) {
    if (f.left < never / 2) {
      f.left = std::max<std::int64_t>(0, f.left - (now_ - w.computes_from) * w.capacity);
    }
    w.computes_from = now_;
  }
  if (f.left == 0) {
    return carry_on(w, f);
  }
  serve(w);
  if (!checkpoint(w, f)) {
    w.computes_from = std::max(w.computes_from, now_ + w.spent);
    plan(w);
  }
}

// The computation is over: what next? One act at a time, as each takes time.
void engine::carry_on(worker& w, fiber& f) {
  const next_act what = proceed(w, f);
  switch (what) {
    case next_act::sleep:
      w.alarms.push_back({f.due + (how_.jitter > 0 ? f.random.between(0, how_.jitter) : 0), ++alarm_order_, &f});
      std::push_heap(w.alarms.begin(), w.alarms.end(), later);
      return leave(w, f, departure::parked);
    case next_act::block: return leave(w, f, departure::parked);
    case next_act::yield: return leave(w, f, departure::yielded);
    case next_act::end: return leave(w, f, departure::exited);
    case next_act::compute: break;
    case next_act::again:
      w.spent += all_.price.call;
      // A preemption point.
      if (w.resched && checkpoint(w, f)) {
        return;
      }
      break;
  }
  w.computes_from = w.grid_from = now_ + w.spent;
  if (f.left == 0) {
    return take_turn(w, std::max(w.computes_from, now_ + 1));
  }
  plan(w);
}

// worker::checkpoint. True: somebody else runs now.
bool engine::checkpoint(worker& w, fiber& f) {
  if (wrong_.ignores_preemption) {
    w.resched = false;
    w.look_again = never;
    empty_inbox(w);
    return false;
  }
  empty_inbox(w);
  if (!f.may_run_on(w.index)) {
    send_away(w, f, joining::migrated);
    return true;
  }
  if (std::exchange(w.looks_for_faster, false) && wants_faster_cpu(w, f)) {
    send_away(w, f, joining::woken);
    return true;
  }
  scheduler::entity* chosen = &f;
  if (w.queue.charge(now_)) {
    ++decisions_;
    chosen = w.queue.pick(now_);
  }
  w.look_again = chosen == &f ? now_ + w.queue.time_left() : 0;
  publish(w);
  w.resched = false;
  if (chosen == &f) {
    ++w.steps;
    // A long stint with others waiting: worth another worker, whatever the average says.
    if (w.waiting > w.bound && now_ - w.stint_began > all_.price.wake) {
      ask_for_help(w);
    }
    return false;
  }
  switch_to(w, f, chosen, departure::displaced);
  return true;
}

// worker::leave
void engine::leave(worker& w, fiber& f, departure how) {
  serve(w);
  empty_inbox(w);
  ++decisions_;
  scheduler::entity* chosen = nullptr;
  if (how == departure::parked || how == departure::exited) {
    depart(w, f);
  }
  switch (how) {
    case departure::displaced:
    case departure::yielded: chosen = w.queue.yield_and_pick(now_); break;
    case departure::parked: chosen = w.queue.park_and_pick(now_); break;
    case departure::exited:
      w.queue.dequeue(f, leaving::exited, now_);
      chosen = w.queue.pick(now_);
  }
  publish(w);
  w.resched = false;
  if (chosen == &f) {
    end_stint(w, f, how);
    w.stint_began = now_;
    w.computes_from = w.grid_from = now_ + w.spent + all_.price.call;
    w.look_again = now_;
    return take_turn(w, std::max(w.computes_from, now_ + 1));
  }
  if (w.looks_for_normal) {
    chosen = nullptr;  // only the idle class is left: the loop looks for better work first
  }
  switch_to(w, f, chosen, how);
}

// worker::jump and settle
void engine::switch_to(worker& w, fiber& f, scheduler::entity* chosen, departure how) {
  pass_time(w);
  end_stint(w, f, how);
  ++switches_;
  f.served += now_ - w.stint_began;
  tell([&](observer& o) { o.stint(f, w, w.stint_began, now_, how); });
  f.since = now_;
  f.state = how == departure::parked ? stage::blocked : how == departure::exited ? stage::ended : stage::runnable;
  if (how == departure::parked && f.spec->goes_home && !f.on_rq) {
    f.home = *f.spec->home;
  }
  if (how == departure::exited && !f.is_measured) {
    graves_.push_back(&f);
  }
  w.running = nullptr;
  w.resched = false;
  w.spent += all_.price.change;
  if (chosen != nullptr) {
    return begin(w, *static_cast<fiber*>(chosen));
  }
  w.state = doing::looking;
  take_turn(w, now_ + std::max<nanos>(w.spent, 1));
}

void engine::serve(worker& w) {
  if (w.running != nullptr && where_.pull_interval() > 0 && now_ >= w.next_even_out) {
    even_out(w);
  }
  while (w.next_alarm() <= now_) {
    fiber& f = *w.alarms.front().who;
    std::pop_heap(w.alarms.begin(), w.alarms.end(), later);
    w.alarms.pop_back();
    unpark(f, &w);
  }
}

void engine::empty_inbox(worker& w) {
  if (w.inbox.empty()) {
    return;
  }
  std::vector<fiber*> mail;
  mail.swap(w.inbox);
  for (fiber* f : mail) {
    join(w, *f, f->arrival);
  }
  publish(w);
}

void engine::end_stint(worker& w, fiber& f, departure how) {
  const nanos stint = now_ - w.stint_began;
  w.stint += (stint - w.stint) >> stint_shift;
  f.usual_stint += (stint - f.usual_stint) >> stint_shift;
  if (f.usage.is_due(now_)) {
    f.usage.fold(now_, f.sum_exec);
    if (how == departure::parked) {
      f.usual_usage = scheduler::estimate_after_sleep(f.usual_usage, f.usage.value(), f.usage.value());
    }
  }
  ++w.steps;
  note_work(w);
}

void engine::join(worker& w, fiber& f, joining why) {
  if (f.home != w.index && f.home != nobody) {
    const journey how = why == joining::spawned ? journey::spawn : why == joining::woken ? journey::wake : journey::steal;
    tell([&](observer& o) { o.moved(f, f.home, w.index, how); });
  }
  if (f.home != w.index) {
    f.recent = f.home == nobody ? scheduler::no_worker : f.home;
  }
  f.home = w.index;
  if (f.is_pinned || !f.allowed.empty()) {
    w.bound += f.is_bound ? 0U : 1U;
    f.is_bound = true;
  }
  f.was_woken |= why != joining::migrated;
  ++decisions_;
  w.resched |= w.queue.enqueue(f, why, now_);
  w.look_again = now_;
}

void engine::depart(worker& w, fiber& f) {
  w.bound -= f.is_bound ? 1U : 0U;
  f.is_bound = false;
}

void engine::publish(worker& w) {
  w.waiting = static_cast<unsigned>(w.queue.runnable() - (w.has_current() ? 1 : 0));
  const bool idle_only = w.queue.has_only_idle();
  if (idle_only != w.is_idle_only && w.queue.runnable() != 0) {
    w.is_idle_only = idle_only;
    all_.idle_only.set(all_.seat_of(w.index), idle_only);
    w.looks_for_normal = idle_only && where_.prefers_normal();
  }
  note_work(w);
}

}  // namespace lagom::sim
