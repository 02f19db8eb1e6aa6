// SPDX-License-Identifier: BSL-1.0
#include <algorithm>

#include "engine.hpp"

// What fibers do. Each function is asked when the fiber runs and its computation is over, and keeps its place in `phase`.
namespace lagom::sim {

using scheduler::joining;

namespace {

constexpr unsigned full_speed = 1024;

// The first point after t of the grid that `due` lies on.
nanos next_on_grid(nanos due, nanos period, nanos t) {
  return due + std::max<nanos>(1, (t - due + period - 1) / period) * period;
}

}  // namespace

nanos engine::varied(fiber& f, nanos about) {
  const int spread = f.spec->does.spread;
  if (spread == 0) {
    return about;
  }
  const nanos by = about * spread / 100;
  return f.random.between(about - by, about + by);
}

engine::next_act engine::compute(fiber& f, nanos work) {
  f.left = work * full_speed;
  return next_act::compute;
}

// One round more; true: that was the last.
bool engine::is_through(fiber& f) {
  ++f.loops;
  return f.times_left > 0 && --f.times_left == 0;
}

engine::next_act engine::proceed(worker& w, fiber& f) {
  const pattern& p = f.spec->does;
  switch (f.what) {
    case behaviour::busy:
      f.left = never;
      return next_act::compute;
    case behaviour::once:
      if (f.phase++ == 0) {
        f.first_ran = now_;
        if (f.peer != nullptr) {
          tell([&](observer& o) { o.child_began(*f.peer, f.began, now_); });
        }
        return compute(f, varied(f, p.run));
      }
      tell([&](observer& o) {
        f.peer != nullptr ? o.child_ended(*f.peer, f, now_) : o.responded(f, f.began, now_);
      });
      return next_act::end;
    case behaviour::run_sleep:
    case behaviour::periodic: return be_sleeper(f);
    case behaviour::pingpong: return be_pingpong(w, f);
    case behaviour::yield:
      if (f.phase == 0 && p.run > 0) {
        f.phase = 1;
        return compute(f, varied(f, p.run));
      }
      f.phase = 0;
      return is_through(f) ? next_act::end : next_act::yield;
    case behaviour::fork: return be_parent(w, f);
    case behaviour::messages: return f.is_server ? be_receiver(w, f) : be_sender(w, f);
    case behaviour::requests: return f.is_server ? be_server(w, f) : be_dispatcher(w, f);
  }
  return next_act::end;
}

engine::next_act engine::be_sleeper(fiber& f) {
  const pattern& p = f.spec->does;
  if (f.phase == 0) {
    if (f.loops > 0) {
      tell([&](observer& o) { o.woke(f, f.due, now_); });
    }
    f.phase = 1;
    return compute(f, varied(f, p.run));
  }
  f.phase = 0;
  tell([&](observer& o) { o.responded(f, f.due, now_); });
  if (is_through(f)) {
    return next_act::end;
  }
  f.due = f.what == behaviour::periodic ? next_on_grid(f.due, p.period, now_) : now_ + varied(f, p.sleep);
  return next_act::sleep;
}

engine::next_act engine::be_pingpong(worker& w, fiber& f) {
  if (f.phase == 0) {
    if (!f.holds_token && f.tokens == 0) {
      return next_act::block;
    }
    if (!f.holds_token) {
      f.tokens = 0;
      tell([&](observer& o) { o.woke(f, f.posted_at, now_); });
    }
    f.holds_token = false;
    f.phase = 1;
    return compute(f, varied(f, f.spec->does.run));
  }
  f.phase = 0;
  f.peer->posted_at = now_;
  f.peer->tokens = 1;
  unpark(*f.peer, &w);
  return is_through(f) ? next_act::end : next_act::again;
}

// Starts its children one by one; each start is a call.
engine::next_act engine::be_parent(worker& w, fiber& f) {
  const pattern& p = f.spec->does;
  if (f.phase == 0) {
    if (f.loops > 0) {
      tell([&](observer& o) { o.woke(f, f.due, now_); });
    }
    f.phase = 1;
    f.tokens = p.burst;
  }
  if (f.tokens-- > 0) {
    fiber* child = nullptr;
    if (graves_.empty()) {
      child = &make(*f.spec, f.number, behaviour::once);
    } else {
      child = graves_.back();
      graves_.pop_back();
      const unsigned id = child->id;
      const generator random = child->random;
      *child = fiber{};
      child->id = id;
      child->spec = f.spec;
      child->number = f.number;
      child->what = behaviour::once;
      child->random = random;
      set_attributes(*child, f.spec->attributes);
    }
    child->is_measured = false;
    child->peer = &f;
    child->state = stage::runnable;
    child->began = child->since = now_;
    route(*child, joining::spawned, &w);
    return next_act::again;
  }
  f.phase = 0;
  if (is_through(f)) {
    return next_act::end;
  }
  f.due = next_on_grid(f.due, p.period, now_);
  return next_act::sleep;
}

engine::next_act engine::be_sender(worker& w, fiber& f) {
  const pattern& p = f.spec->does;
  if (f.phase == 0) {
    f.phase = 1;
    return compute(f, varied(f, p.run));
  }
  fiber& to = *f.team->receivers[static_cast<std::size_t>(f.tokens)];
  if (to.tokens >= p.capacity) {
    to.visitors.push_back(&f);
    return next_act::block;
  }
  f.phase = 0;
  f.tokens = (f.tokens + 1) % p.receivers;
  if (to.tokens++ == 0) {
    to.posted_at = now_;
  }
  unpark(to, &w);
  return f.tokens == 0 && is_through(f) ? next_act::end : next_act::again;
}

engine::next_act engine::be_receiver(worker& w, fiber& f) {
  if (f.phase == 0) {
    if (f.tokens == 0) {
      f.holds_token = true;  // waits, so that the wake-up counts
      return next_act::block;
    }
    if (f.holds_token) {
      f.holds_token = false;
      tell([&](observer& o) { o.woke(f, f.posted_at, now_); });
    }
    --f.tokens;
    f.phase = 1;
    if (!f.visitors.empty()) {
      fiber& sender = *f.visitors.front();
      f.visitors.erase(f.visitors.begin());
      unpark(sender, &w);
    }
    return compute(f, varied(f, f.spec->does.run));
  }
  f.phase = 0;
  return is_through(f) ? next_act::end : next_act::again;
}

engine::next_act engine::be_dispatcher(worker& w, fiber& f) {
  if (f.phase == 0) {
    if (f.visitors.empty()) {
      return next_act::block;
    }
    f.phase = 1;
    return compute(f, varied(f, f.spec->does.dispatch));
  }
  f.phase = 0;
  fiber& server = *f.visitors.front();
  f.visitors.erase(f.visitors.begin());
  ++f.loops;
  server.tokens = 1;
  server.posted_at = now_;
  unpark(server, &w);
  return next_act::again;
}

engine::next_act engine::be_server(worker& w, fiber& f) {
  const pattern& p = f.spec->does;
  switch (f.phase) {
    case 0:  // reports that it is free
      f.phase = 1;
      f.peer->visitors.push_back(&f);
      unpark(*f.peer, &w);
      return next_act::again;
    case 1:
      if (f.tokens == 0) {
        return next_act::block;
      }
      f.tokens = 0;
      f.phase = 2;
      tell([&](observer& o) { o.woke(f, f.posted_at, now_); });
      return compute(f, varied(f, p.run));
    default:
      f.phase = 0;
      ++f.loops;
      tell([&](observer& o) { o.responded(f, f.posted_at, now_); });
      if (p.sleep == 0) {
        return next_act::again;
      }
      f.due = now_ + varied(f, p.sleep);
      return next_act::sleep;
  }
}

// --- becoming runnable -----------------------------------------------------------------------------------------------

// park.cpp, make_runnable
void engine::unpark(fiber& f, worker* here) {
  if (f.state != stage::blocked) {
    return;
  }
  f.state = stage::runnable;
  f.since = now_;
  if (++wakes_ == wrong_.lose_wake) {
    return;
  }
  route(f, joining::woken, here);
}

void engine::route(fiber& f, joining why, worker* here) {
  ++decisions_;
  const placement::destination target = why == joining::spawned ? where_.spawned(all_, f, here) : where_.woken(all_, f, here);
  worker& to = *all_.workers[target.worker];
  if (&to != here) {
    if (target.is_claimed) {
      all_.idle.set(all_.seat_of(to.index), true);  // send() claims again
    }
    return send(f, why, to, here);
  }
  join(to, f, why);
  publish(to);
  if (to.too_much_since != never) {
    ask_for_help(to);
  }
}

// worker::send
void engine::send(fiber& f, joining why, worker& to, worker* here) {
  if (here != nullptr) {
    here->spent += all_.price.remote_line;
  }
  f.arrival = why;
  to.inbox.push_back(&f);
  note_work(to);
  if (all_.claim(to.index)) {
    return notify(to);
  }
  to.resched = true;
  nudge_monitor();
  if (to.state == doing::running) {
    plan(to);
  } else if (to.state == doing::spinning) {
    take_turn(to, std::min(to.turn_at, now_ + all_.price.remote_line));
  }
}

}  // namespace lagom::sim
