// SPDX-License-Identifier: BSL-1.0
#include "measures.hpp"

#include <algorithm>
#include <cmath>

namespace lagom::sim {

namespace {

std::size_t class_of(const fiber& f) { return static_cast<std::size_t>(f.kind); }

}  // namespace

measures::measures(const workload& what, const crew& all) : what_(what), all_(all), workers_(all.workers.size()) {
  for (const fiber_spec& spec : what.fibers) {
    fibers_.push_back({.name = spec.name, .fibers = spec.count});
  }
}

std::size_t measures::line_of(const fiber& f) const { return static_cast<std::size_t>(f.spec - what_.fibers.data()); }

void measures::stint(const fiber& f, const worker& w, nanos from, nanos to, departure how) {
  if (!counts(to)) {
    return;
  }
  worker_figures& mine = workers_[w.index];
  ++mine.switches;
  mine.displaced += how == departure::displaced ? 1U : 0U;
  const nanos ran = to - std::max(from, what_.warmup);
  if (f.id >= served_.size()) {
    served_.resize(f.id + 1);
  }
  served_[f.id] += ran;
  of(f).served += ran;
}

void measures::began(const fiber& f, const worker& w, nanos at, nanos waited) {
  if (!counts(at)) {
    return;
  }
  worker_figures& mine = workers_[w.index];
  mine.wait[class_of(f)].add(waited);
  if (f.was_woken) {
    mine.wake[class_of(f)].add(waited);
  }
}

void measures::woke(const fiber& f, nanos due, nanos ran) {
  if (counts(due)) {
    of(f).wake.add(ran - due);
  }
}

void measures::responded(const fiber& f, nanos due, nanos done) {
  if (counts(due)) {
    of(f).response.add(done - due);
  }
}

void measures::child_began(const fiber& parent, nanos created, nanos began) {
  if (counts(created)) {
    of(parent).child_start.add(began - created);
  }
}

void measures::child_ended(const fiber& parent, const fiber& child, nanos at) {
  if (counts(child.began)) {
    of(parent).response.add(at - child.began);
    ++of(parent).children;
  }
}

void measures::moved(const fiber&, unsigned from, unsigned to, journey how) {
  if (counts(all_.now)) {
    ++moves_[static_cast<std::size_t>(how)][static_cast<std::size_t>(all_.distance(from, to))];
  }
}

void measures::worker_woken(const worker& w, nanos at) { workers_[w.index].wakes += counts(at) ? 1U : 0U; }

void measures::searched(const worker& w, bool found) {
  if (counts(all_.now)) {
    ++workers_[w.index].searches;
    workers_[w.index].thefts += found ? 1U : 0U;
  }
}

void measures::spent(const worker& w, spending on, nanos from, nanos to) {
  from = std::max(from, what_.warmup);
  if (from >= to) {
    return;
  }
  worker_figures& mine = workers_[w.index];
  mine.spent[static_cast<std::size_t>(on)] += to - from;
  if (on > spending::idle_class) {
    return;
  }
  const nanos stretch = (measured() + static_cast<nanos>(time_buckets) - 1) / static_cast<nanos>(time_buckets);
  for (nanos at = from; at < to;) {
    const auto bucket = static_cast<std::size_t>((at - what_.warmup) / stretch);
    const nanos end = std::min(to, what_.warmup + static_cast<nanos>(bucket + 1) * stretch);
    mine.busy[std::min(bucket, time_buckets - 1)] += end - at;
    at = end;
  }
}

void measures::finish(const engine& done) {
  for (const fiber& f : done.fibers()) {
    if (f.is_measured) {
      of(f).loops += f.loops;
    }
  }
  judge_shares(done);
}

// A fair machine gives everybody time in proportion to the weights, but nobody more than one worker: who would get more
// has one for himself, and the others share the rest.
void measures::judge_shares(const engine& done) {
  struct one {
    const fiber* who;
    double weight;
    double served;
  };
  std::vector<one> all;
  double total = 0;
  for (const fiber& f : done.fibers()) {
    if (f.what == behaviour::busy && f.spec->start <= what_.warmup && f.allowed.empty() && !f.is_pinned) {
      all.push_back({&f, static_cast<double>(f.deserved().scaled), static_cast<double>(served(f.id))});
      total += all.back().served;
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const one& a, const one& b) { return a.weight > b.weight; });
  double weights = 0;
  for (const one& o : all) {
    weights += o.weight;
  }
  const double most = static_cast<double>(measured());
  for (const one& o : all) {
    const double fair = std::min(most, total * o.weight / weights);
    const double error = fair > 0 ? std::abs(o.served / fair - 1) : 0;
    if (shares_.fibers++ == 0 || error > shares_.worst) {
      shares_.worst = error;
      shares_.who = engine::name_of(*o.who);
    }
    total -= fair;
    weights -= o.weight;
  }
}

wait_histogram measures::all_waits(scheduler::policy kind) const {
  wait_histogram sum;
  for (const worker_figures& w : workers_) {
    sum.add(w.wait[static_cast<std::size_t>(kind)]);
  }
  return sum;
}

wait_histogram measures::all_wakes(scheduler::policy kind) const {
  wait_histogram sum;
  for (const worker_figures& w : workers_) {
    sum.add(w.wake[static_cast<std::size_t>(kind)]);
  }
  return sum;
}

std::array<nanos, spendings> measures::all_spent() const {
  std::array<nanos, spendings> sum{};
  for (const worker_figures& w : workers_) {
    for (std::size_t i = 0; i < spendings; ++i) {
      sum[i] += w.spent[i];
    }
  }
  return sum;
}

std::uint64_t measures::total(std::uint64_t worker_figures::*which) const {
  std::uint64_t sum = 0;
  for (const worker_figures& w : workers_) {
    sum += w.*which;
  }
  return sum;
}

}  // namespace lagom::sim
