// SPDX-License-Identifier: BSL-1.0
#include "checkers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lagom::sim {

namespace {

constexpr std::int64_t looks = 64;  // at everything, in one run
constexpr nanos second = 1'000'000'000;

// The longest that a fiber may run before anybody looks.
nanos longest_stretch(const workload& what, const setup& how) {
  nanos longest = how.tick;
  for (const fiber_spec& f : what.fibers) {
    if (!f.does.polite) {
      longest = std::max(longest, f.does.run + f.does.run * f.does.spread / 100);
    }
  }
  return longest;
}

nanos longest_slice(const workload& what, const setup& how) {
  nanos longest = how.knobs.base_slice;
  const auto take = [&](nanos slice) {
    longest = std::max(longest, slice == 0 ? 0 : std::clamp(slice, how.knobs.slice_min, how.knobs.slice_max));
  };
  for (const fiber_spec& f : what.fibers) {
    take(f.attributes.slice);
  }
  for (const change& c : what.changes) {
    take(c.slice.value_or(0));
  }
  return longest;
}

}  // namespace

checkers::checkers(const workload& what, const crew& all, const setup& how, const limits& given)
    : what_(what), all_(all), limits_(given) {
  // The monitor may have settled on its longest tick; it then looks once a short one, and helpers wake up one by one.
  const nanos stretch = longest_stretch(what, how);
  if (limits_.idle_while_runnable == 0) {
    limits_.idle_while_runnable = how.monitor_tick_max + how.monitor_tick + 8 * how.price.wake;
  }
  // EEVDF: a request and what is overrun, among a fixed set. Who wakes up or migrates brings along what he had, and what
  // is brought adds up: twice to four times that is seen.
  constexpr nanos room = 8;
  if (limits_.lag == 0) {
    limits_.lag = room * (longest_slice(what, how) + stretch + how.knobs.wakeup_granularity + how.price.wake);
  }
  if (limits_.starved == 0) {
    limits_.starved = 10 * second;
  }
}

void checkers::report(const char* rule, nanos at, std::string what) {
  const auto is_same = [&](const violation& v) { return v.rule == rule; };
  if (std::none_of(found_.begin(), found_.end(), is_same)) {
    found_.push_back({rule, at, std::move(what)});
  }
}

void checkers::attach(engine& e) {
  engine_ = &e;
  if (!limits_.check) {
    return;
  }
  e.watch(*this);
  e.every(std::max<nanos>(limits_.idle_while_runnable / 2, 1), [this](nanos now) { look_for_idle(now); });
  e.every(std::max<nanos>(what_.duration / looks, 1), [this](nanos now) {
    look_at_queues(now);
    look_for_lost(now);
  });
}

void checkers::moved(const fiber& f, unsigned, unsigned, journey) {
  if (f.id < stays_.size()) {
    stays_[f.id] = {all_.now, 0};
  }
}

void checkers::stint(const fiber& f, const worker&, nanos from, nanos to, departure) {
  if (f.id >= stays_.size()) {
    stays_.resize(f.id + 1);
  }
  stays_[f.id].served += to - std::max(from, stays_[f.id].since);
}

// A worker that sleeps, and one that it could help: a fiber waits there, or more than enough, both for the whole bound.
void checkers::look_for_idle(nanos now) {
  const nanos before = now - limits_.idle_while_runnable;
  std::vector<const worker*> sleepers;
  for (const auto& w : all_.workers) {
    if (w->state == doing::parked && w->parked_at <= before) {
      sleepers.push_back(w.get());
    }
  }
  if (sleepers.empty()) {
    return;
  }
  for (const auto& w : all_.workers) {
    if (w->waiting == 0 && w->inbox.empty()) {
      continue;
    }
    const auto judge = [&](const fiber& f) {
      const bool waits_long = f.since <= before || w->too_much_since <= before;
      if (f.delayed || f.state != stage::runnable || !waits_long || f.is_pinned) {
        return;
      }
      const auto idle = std::find_if(sleepers.begin(), sleepers.end(), [&](const worker* s) { return f.may_run_on(s->index); });
      if (idle != sleepers.end()) {
        report("idle while runnable", now,
               fmt::format("worker {} sleeps for {} ns while fiber {} waits on worker {} for {} ns, which has too much for {} "
                           "ns; the bound is {} ns",
                           (*idle)->index, now - (*idle)->parked_at, engine::name_of(f), w->index, now - f.since,
                           w->too_much_since == never ? 0 : now - w->too_much_since, limits_.idle_while_runnable));
      }
    };
    w->queue.for_each([&](const scheduler::entity& e) { judge(static_cast<const fiber&>(e)); });
    std::for_each(w->inbox.begin(), w->inbox.end(), [&](const fiber* f) { judge(*f); });
  }
}

void checkers::look_at_queues(nanos now) {
  for (const auto& w : all_.workers) {
    w->queue.check_invariants();
    w->queue.for_each([&](const scheduler::entity& e) {
      const auto& f = static_cast<const fiber&>(e);
      if (f.delayed || w->queue.runnable() < 2) {  // alone, or beside sleepers that pay their debt: nobody is kept waiting
        return;
      }
      const nanos lag = w->queue.service_lag(e);
      worst_lag_ = std::max(worst_lag_, std::max(lag, -lag));
      if (lag > limits_.lag || -lag > limits_.lag) {
        report("lag", now, fmt::format("fiber {} on worker {} is {} {} ns of service; the bound is {} ns",
                                       engine::name_of(f), w->index, lag > 0 ? "owed" : "ahead by", lag > 0 ? lag : -lag,
                                       limits_.lag));
      }
      if (f.state == stage::runnable && now - f.since > limits_.starved) {
        report("starved", now, fmt::format("fiber {} waits on worker {} for {} ns; the bound is {} ns",
                                           engine::name_of(f), w->index, now - f.since, limits_.starved));
      }
    });
  }
}

// Everybody who is runnable must be found in the queue or the inbox of its worker, or be running there.
void checkers::look_for_lost(nanos now) {
  std::vector<std::uint8_t> is_found(engine_->fibers().size());
  for (const auto& w : all_.workers) {
    w->queue.for_each([&](const scheduler::entity& e) { is_found[static_cast<const fiber&>(e).id] = 1; });
    for (const fiber* f : w->inbox) {
      is_found[f->id] = 1;
    }
  }
  for (const fiber& f : engine_->fibers()) {
    if ((f.state == stage::runnable || f.state == stage::running) && is_found[f.id] == 0) {
      report("lost fiber", now, fmt::format("fiber {} is runnable since {} ns and in no queue", engine::name_of(f), f.since));
    }
  }
}

// Those of one worker that were runnable there together: what one got for its weight, the others got too.
void checkers::judge_shares(nanos now) {
  std::vector<std::vector<const fiber*>> by_worker(all_.workers.size());
  for (const fiber& f : engine_->fibers()) {
    const bool is_steady = f.what == behaviour::busy && f.state != stage::unborn && f.home != nobody;
    const bool is_changed = std::any_of(what_.changes.begin(), what_.changes.end(),
                                        [&](const change& c) { return c.who == engine::name_of(f); });
    const nanos began = f.id < stays_.size() ? std::max(stays_[f.id].since, f.began) : f.began;
    if (is_steady && !is_changed && began <= what_.warmup) {
      by_worker[f.home].push_back(&f);
    }
  }
  for (const auto& together : by_worker) {
    double weights = 0;
    double total = 0;
    for (const fiber* f : together) {
      weights += static_cast<double>(f->deserved().scaled);
      total += static_cast<double>(f->id < stays_.size() ? stays_[f->id].served : 0);
    }
    for (const fiber* f : together) {
      const double fair = total * static_cast<double>(f->deserved().scaled) / weights;
      const double got = static_cast<double>(f->id < stays_.size() ? stays_[f->id].served : 0);
      // What happened before the warm-up was over comes on top.
      const double bound = static_cast<double>(limits_.lag) + static_cast<double>(what_.warmup);
      if (got > fair + bound || got < fair - bound) {
        report("share", now, fmt::format("fiber {} on worker {} got {:.0f} ns of service, its weight gives {:.0f} ns; "
                                         "the bound is {:.0f} ns", engine::name_of(*f), f->home, got, fair, bound));
      }
    }
  }
}

void checkers::finish() {
  if (!limits_.check) {
    return;
  }
  look_for_idle(all_.now);
  look_at_queues(all_.now);
  look_for_lost(all_.now);
  judge_shares(all_.now);
  std::stable_sort(found_.begin(), found_.end(), [](const violation& a, const violation& b) { return a.at < b.at; });
}

}  // namespace lagom::sim
