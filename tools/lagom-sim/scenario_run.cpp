// SPDX-License-Identifier: BSL-1.0
#include "scenario_run.hpp"

#include <algorithm>

namespace lagom::sim {

namespace {

using scenarios::pattern_kind;

scheduler::policy policy_of(scenarios::policy which) {
  switch (which) {
    case scenarios::policy::batch: return scheduler::policy::batch;
    case scenarios::policy::idle: return scheduler::policy::idle;
    default: return scheduler::policy::normal;
  }
}

behaviour behaviour_of(pattern_kind kind) {
  switch (kind) {
    case pattern_kind::run_sleep: return behaviour::run_sleep;
    case pattern_kind::periodic: return behaviour::periodic;
    case pattern_kind::pingpong: return behaviour::pingpong;
    case pattern_kind::yield: return behaviour::yield;
    case pattern_kind::fork: return behaviour::fork;
    default: return behaviour::busy;
  }
}

bool is_for_one_cpu(const scenarios::scenario& what) {
  return std::all_of(what.threads.begin(), what.threads.end(), [&](const scenarios::thread_spec& t) {
    return t.cpu == what.threads.front().cpu && t.cpu != scenarios::any_cpu;
  });
}

}  // namespace

std::size_t workers_of(const scenarios::scenario& what) { return is_for_one_cpu(what) ? 1 : what.cpus(); }

workload workload_of(const scenarios::scenario& what) {
  workload w;
  w.name = what.name;
  w.about = "a scenario file";
  w.duration = what.duration;
  w.warmup = what.warmup;
  w.phases = what.phases;
  for (const scenarios::thread_spec& t : what.threads) {
    fiber_spec f;
    f.name = t.name;
    f.start = t.start;
    f.attributes.kind = policy_of(t.sched.policy);
    f.attributes.nice = t.sched.nice;
    f.attributes.slice = t.sched.slice;
    if (is_for_one_cpu(what)) {
      f.home = 0;
    } else if (t.cpu != scenarios::any_cpu) {
      f.home = static_cast<unsigned>(t.cpu);
      f.attributes.affinity = {*f.home};
    } else if (t.home_cpu != scenarios::any_cpu) {
      f.home = static_cast<unsigned>(t.home_cpu);
      f.goes_home = true;
    }
    f.does.what = behaviour_of(t.pattern.kind);
    f.does.run = t.pattern.run;
    f.does.sleep = t.pattern.sleep;
    f.does.period = t.pattern.period;
    f.does.first = t.pattern.has_token;
    f.does.peer = f.does.what == behaviour::pingpong ? what.threads[t.pattern.peer].name : "";
    w.fibers.push_back(f);
  }
  for (const scenarios::event& e : what.events) {
    change c;
    c.at = e.at;
    c.who = what.threads[e.thread].name;
    c.nice = e.nice;
    c.slice = e.slice;
    if (e.policy) {
      c.kind = policy_of(*e.policy);
    }
    w.changes.push_back(c);
  }
  return w;
}

scenario_recorder::scenario_recorder(scenarios::run_record& into)
    : into_(into), so_far_(into.threads.size()) {
  into_.start(0);
}

void scenario_recorder::began(const fiber& f, const worker& w, nanos at, nanos waited) {
  if (!f.is_measured) {
    return;
  }
  const bool is_woken = f.was_woken;
  record_of(f).log.begin_burst(at, w.index, is_woken ? scenarios::thread_log::start::woken : scenarios::thread_log::start::resumed);
  ++so_far_[f.id].runs;
  so_far_[f.id].run_delay += waited;
}

void scenario_recorder::stint(const fiber& f, const worker&, nanos from, nanos to, departure how) {
  if (!f.is_measured) {
    return;
  }
  record_of(f).log.end_burst(to);
  scenarios::counters& c = so_far_[f.id];
  c.cpu += to - from;
  ++(how == departure::displaced ? c.involuntary : c.voluntary);
}

void scenario_recorder::woke(const fiber& f, nanos due, nanos ran) { record_of(f).log.note_wake(due, ran); }

void scenario_recorder::responded(const fiber& f, nanos due, nanos done) { record_of(f).log.note_response(due, done); }

void scenario_recorder::child_ended(const fiber& parent, const fiber& child, nanos at) {
  record_of(parent).log.note_child(child.began, child.first_ran, at, child.served + at - child.since);
}

// Of the running ones, what they have had of their present stint counts too.
nanos scenario_recorder::cpu_of(std::size_t thread, nanos at) const {
  nanos cpu = so_far_[thread].cpu;
  for (const auto& w : of_->all().workers) {
    if (w->running != nullptr && w->running->id == thread) {
      cpu += at - w->stint_began;
    }
  }
  return cpu;
}

void scenario_recorder::mark(nanos at) {
  const auto& phases = into_.what.phases;
  for (std::size_t i = 0; i < into_.threads.size(); ++i) {
    scenarios::thread_record& t = into_.threads[i];
    scenarios::counters now = so_far_[i];
    now.cpu = cpu_of(i, at);
    if (at == into_.measured.begin) {
      t.at_begin = now;
      t.slice_seen = of_->played().fibers()[i].slice;
    }
    if (std::find(phases.begin(), phases.end(), at) != phases.end()) {
      t.phase_cpu.push_back(now.cpu);
    }
    if (at == into_.measured.end) {
      t.at_end = now;
      t.log.loops = of_->played().fibers()[i].loops;
    }
  }
  if (at == into_.measured.end) {
    for (const scenarios::event& e : into_.what.events) {
      into_.threads[e.thread].sched = e.applied_to(into_.threads[e.thread].sched);
    }
  }
}

}  // namespace lagom::sim
