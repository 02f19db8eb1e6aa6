// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <array>
#include <utility>

#include "os/clock.hpp"
#include "runtime_core.hpp"
#include "worker.hpp"

// Where a fiber goes that has just become runnable: the question put to scheduler/worker_selection.hpp, and its answer
// carried out.
namespace lagom {
inline namespace v0 {
namespace detail {

bool worker::keeps(const fiber_block& f, std::int64_t usual_stint) const noexcept {
  if (f.pin_count != 0 || f.on_rq) return true;  // on_rq: delayed, still counted by its queue
  if (core.workers.size() == 1) return true;
  if (core.seats.map().is_hybrid || !may_run_here(f)) return false;
  scheduler::situation now;
  now.wait_here = expected_wait(f.kind == scheduler::policy::idle);
  now.wake_cost = core.wake_ups.now();
  return scheduler::stays_here(now, usual_stint);
}

// Copies what the workers publish. Three times `words` long: who sleeps, who has only the idle class, where f may run.
void runtime_core::copy_words(const fiber_block* f, std::span<std::uint64_t> to) const noexcept {
  const std::size_t words = idle.words();
  for (std::size_t i = 0; i < words; ++i) {
    to[i] = idle.available(i);
    to[words + i] = published.word(published_words::kind::idle_only, i) & ~idle.reserve(i);
    to[2 * words + i] = 0;
  }
  if (!f || !f->allowed) return;
  for (std::uint32_t w = 0; w < workers.size(); ++w) {
    const std::uint32_t seat = seats.seat_of(w);
    if (f->allowed[w]) to[2 * words + seat / 64] |= std::uint64_t{1} << (seat % 64);
  }
}

// The worker that is to run f, and whether its sleep has been claimed. `here` is the waker's, nullptr for a thread that is
// none of ours. `view` is room for the copies.
std::pair<worker*, worker::claimed> runtime_core::select(const fiber_block& f, const worker* here, std::int64_t usual_stint,
                                                         std::span<std::uint64_t> view) noexcept {
  const std::size_t words = idle.words();
  copy_words(&f, view);
  const worker* home = f.home.load(std::memory_order_relaxed);  // null for a new one
  if (home && (&home->core != this || home->unfitness() != 0)) home = nullptr;
  const bool is_idle_class = f.kind == scheduler::policy::idle;
  scheduler::wakee who;
  who.previous = home ? home->index : scheduler::no_worker;
  who.recent = f.recent_worker;
  who.is_idle_class = is_idle_class;
  who.usual_stint = usual_stint;
  who.utilization = std::max(usage_of(f).value(), f.usual_usage);
  who.clamp = f.clamp;
  if (f.allowed) who.allowed = view.subspan(2 * words, words);
  scheduler::situation now;
  if (here && here->unfitness() == 0) {
    now.here = here->index;
    now.wait_here = here->expected_wait(is_idle_class);
  }
  now.wait_previous = home ? home->expected_wait(is_idle_class) : scheduler::forever;
  now.wake_cost = wake_ups.now();
  now.idle = view.first(words);
  now.idle_only = view.subspan(words, words);
  now.packs = packs.load(std::memory_order_relaxed);  // a hint
  for (;;) {
    const scheduler::selection chosen = scheduler::select_worker(seats.map(), who, now);
    if (chosen.worker == scheduler::no_worker) return {&least_waiting(&f), worker::claimed::no};
    worker& w = *workers[chosen.worker];
    if (!chosen.must_claim) return {&w, worker::claimed::no};
    if (idle.claim(w.seat)) return {&w, worker::claimed::yes};
    view[w.seat / 64] &= ~(std::uint64_t{1} << (w.seat % 64));
  }
}

// A child is taken for short until it has shown otherwise, unless all are long here.
void worker::enqueue_spawned(fiber_block& f) noexcept {
  if (!keeps(f, stint_.load(std::memory_order_relaxed))) return place(f, scheduler::joining::spawned);  // ours
  f.home.store(this, std::memory_order_relaxed);  // nobody else has it, so this need not be said aloud as in arrive()
  enqueue(f, scheduler::joining::spawned);
}

void worker::place(fiber_block& f, scheduler::joining why) noexcept {
  const std::int64_t stint = f.usual_stint != 0 ? f.usual_stint : stint_.load(std::memory_order_relaxed);  // ours
  const auto [target, sleep] = core.select(f, this, stint, view_);
  if (target == this) return enqueue(f, why);
  f.arrival = why;
  target->send(f, sleep);
}

void runtime_core::count_awake(std::int64_t now) noexcept {
  if (!has_clamps_.load(std::memory_order_relaxed)) return;  // a hint
  std::uint64_t used = 0;
  for (const auto& w : workers) {
    if (w->in_reserve()) continue;
    const scheduler::clamp_range asked = w->clamps();
    used += std::clamp<unsigned>(w->look(now).util, asked.min, asked.max);
  }
  const std::size_t awake = workers.size() - std::min(workers.size(), idle.count());
  packs.store(awake < scheduler::awake_target(used), std::memory_order_relaxed);  // a hint
}

// A fiber from outside, or from a worker that is not to have it: to its last worker if that sleeps, else to another that does,
// else where the fewest wait.
void runtime_core::dispatch(fiber_block& f) noexcept {
  constexpr std::size_t most_words = 64;  // 1.5 KiB of the caller's stack; who has more caches is looked at by turns
  if (3 * idle.words() > 3 * most_words) return least_waiting(&f).send(f);
  std::array<std::uint64_t, 3 * most_words> view;
  const auto [target, sleep] = select(f, nullptr, scheduler::forever, std::span(view).first(3 * idle.words()));
  target->send(f, sleep);
}

// Only if there is no other it is one that is held, or in reserve. O(workers).
worker& runtime_core::least_waiting(const fiber_block* f) noexcept {
  const auto n = static_cast<unsigned>(workers.size());
  const unsigned start = next_worker.fetch_add(1, std::memory_order_relaxed) % n;  // spreads
  worker* best = nullptr;
  for (unsigned k = 0; k < n; ++k) {
    const unsigned i = (start + k) % n;
    if (f && f->allowed && !f->allowed[i]) continue;
    worker& w = *workers[i];
    if (idle.is_idle(w.seat) && w.unfitness() == 0) return w;
    if (!best || std::pair(w.unfitness(), w.waiting()) < std::pair(best->unfitness(), best->waiting())) best = &w;
  }
  return best ? *best : *workers[start];
}

bool runtime_core::has_a_better_place(const fiber_block& f, const worker& here) const noexcept {
  return std::any_of(workers.begin(), workers.end(), [&](const std::unique_ptr<worker>& w) {
    return w->unfitness() < here.unfitness() && (!f.allowed || f.allowed[w->index]);
  });
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
