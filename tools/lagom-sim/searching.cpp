// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <utility>

#include "engine.hpp"

// What a worker does that has nothing to run. Mirrors runtime/worker/{loop,steal}.cpp.
namespace lagom::sim {

using scheduler::joining;
using scheduler::leaving;

namespace {

constexpr nanos poll_period = 640;  // sixteen pauses of the processor

}  // namespace

// Keeps the two counts that spinners and those about to sleep go by; a spinner would see it at its next look.
void engine::note_work(worker& w) {
  const bool has_work = w.waiting > 0 || !w.inbox.empty();
  const unsigned movable = w.waiting > w.bound ? w.waiting - w.bound : 0;
  const nanos load = static_cast<nanos>(movable) * w.stint;
  const bool has_too_much = load > all_.price.wake;
  w.too_much_since = has_too_much ? std::min(w.too_much_since, now_) : never;
  const bool keeps_mark = where_.keeps_mark() && w.is_overloaded && 4 * load >= all_.price.wake;
  w.is_overloaded = has_too_much || keeps_mark;
  all_.overloaded.set(all_.seat_of(w.index), w.is_overloaded);
  if (has_work == (has_work_[w.index] != 0)) {
    return;
  }
  has_work_[w.index] = has_work ? 1 : 0;
  with_work_ += has_work ? 1U : 0U;
  with_work_ -= has_work ? 0U : 1U;
  if (has_work && with_work_ == 1) {
    for (const unsigned i : spinners_) {
      worker& s = *all_.workers[i];
      const nanos rounds = (now_ - s.spin_from) / poll_period + 1;
      take_turn(s, std::min(s.turn_at, s.spin_from + rounds * poll_period));
    }
  }
}

// worker::steal
bool engine::steal(worker& w, placement::loot_kind what) {
  if (all_.workers.size() < 2 || wrong_.never_steals) {
    return false;
  }
  bool has_met = false;
  bool try_again = false;
  w.saw_unmovable = false;
  for (unsigned tries = 0;; ++tries) {
    const placement::victim whom = where_.next_victim(all_, w, tries, what);
    if (whom.worker == nobody) {
      w.saw_unmovable = has_met && !try_again;
      where_.searched(all_, w, false);
      tell([&](observer& o) { o.searched(w, false); });
      return false;
    }
    worker& victim = *all_.workers[whom.worker];
    w.spent += all_.price.remote_line;
    has_met = true;
    const haul h = rob(victim, w, whom);
    try_again |= h.is_any_too_fresh;
    if (h.taken == 0) {
      continue;
    }
    where_.searched(all_, w, true);
    tell([&](observer& o) { o.searched(w, true); });
    publish(w);
    stop_searching(w);
    if (victim.is_overloaded && all_.workers.size() > 2) {
      ask_for_help(victim);
    }
    return true;
  }
}

// worker::rob
engine::haul engine::rob(worker& victim, worker& thief, const placement::victim& what) {
  empty_inbox(victim);
  const unsigned wanted = std::min(what.at_most, (victim.waiting + 1) / 2);
  constexpr std::size_t search_max = 256;
  std::vector<fiber*> loot;
  haul result;
  while (loot.size() < wanted) {
    scheduler::entity* e = victim.queue.steal_candidate([&](const scheduler::entity& candidate) {
      const auto& f = static_cast<const fiber&>(candidate);
      if (f.is_pinned || !f.may_run_on(thief.index)) {
        return false;
      }
      // Who is of the idle class, or has never run, has nothing in the cache that counts.
      if (f.kind == scheduler::policy::idle) {
        return what.takes_idle_class;
      }
      const bool is_fresh = f.has_run && now_ - f.since < what.guard;
      result.is_any_too_fresh |= is_fresh;
      return !is_fresh;
    }, search_max);
    if (e == nullptr) {
      break;
    }
    depart(victim, *static_cast<fiber*>(e));
    victim.queue.dequeue(*e, leaving::migrated, now_);
    loot.push_back(static_cast<fiber*>(e));
  }
  publish(victim);
  if (victim.running != nullptr) {
    plan(victim);
  }
  for (fiber* f : loot) {
    thief.spent += all_.price.remote_line;
    join(thief, *f, joining::migrated);
  }
  result.taken = static_cast<unsigned>(loot.size());
  return result;
}

// worker::spin. False: not worth it.
bool engine::spin(worker& w) {
  if (w.idle_average > 4 * all_.price.spin) {
    return false;
  }
  if (!w.is_searcher) {
    const auto most = std::max<std::size_t>(1, all_.workers.size() / 2);
    if (all_.searchers >= most) {
      return false;
    }
    ++all_.searchers;
    w.is_searcher = true;
  }
  w.state = doing::spinning;
  w.spin_from = now_;
  w.spin_until = now_ + all_.price.spin;
  spinners_.push_back(w.index);
  const nanos next = with_work_ > 0 ? now_ + std::max(poll_period, w.spent) : w.spin_until;
  take_turn(w, std::min(next, std::max(w.next_alarm(), now_ + 1)));
  return true;
}

void engine::poll(worker& w) {
  const bool found = !w.inbox.empty() || w.next_alarm() <= now_ || steal(w, placement::loot_kind::anything);
  const bool is_over = now_ >= w.spin_until;
  if (!found && !is_over) {
    const nanos next = with_work_ > 0 ? std::min(w.spin_until, now_ + std::max(poll_period, w.spent)) : w.spin_until;
    return take_turn(w, std::min(next, std::max(w.next_alarm(), now_ + 1)));
  }
  spinners_.erase(std::find(spinners_.begin(), spinners_.end(), w.index));
  w.state = doing::looking;
  if (found) {
    return step(w);
  }
  stop_searching(w);
  sleep(w);
}

void engine::stop_searching(worker& w) {
  if (w.is_searcher) {
    w.is_searcher = false;
    --all_.searchers;
  }
}

// worker::sleep, with its last look
void engine::sleep(worker& w) {
  stop_searching(w);
  const bool stays = where_.stays_awake(all_, w);
  if ((stays && !wrong_.never_steals) || w.queue.runnable() != 0 || !w.inbox.empty()) {
    w.state = doing::looking;
    return take_turn(w, now_ + std::max<nanos>(w.spent, 1));
  }
  all_.idle.set(all_.seat_of(w.index), true);
  w.state = doing::parked;
  w.parked_at = now_;
  const nanos alarm = w.next_alarm();
  take_turn(w, alarm == never ? never : std::max(alarm, now_) + all_.price.wake);
}

void engine::get_up(worker& w) {
  all_.claim(w.index);
  w.saw_unmovable = false;
  w.idle_average += (now_ - w.parked_at - w.idle_average) / 8;
  w.state = doing::looking;
  tell([&](observer& o) { o.worker_woken(w, now_); });
  nudge_monitor();
}

// Its idle bit is claimed: it comes when the system has woken it.
void engine::notify(worker& w) {
  if (w.state == doing::parked) {
    pass_time(w);
    w.state = doing::waking;
    take_turn(w, std::min(w.turn_at, now_ + all_.price.wake));
  }
}

void engine::make_searcher(unsigned helper) {
  worker& w = *all_.workers[helper];
  ++all_.searchers;
  w.is_searcher = true;
  notify(w);
}

// worker::ask_for_help
void engine::ask_for_help(worker& w) {
  if (wrong_.never_steals) {
    return;
  }
  const unsigned helper = where_.helper(all_, w);
  if (helper != nobody) {
    w.spent += all_.price.remote_line;
    make_searcher(helper);
  }
}

}  // namespace lagom::sim
