// SPDX-License-Identifier: BSL-1.0
#include <utility>

#include "runtime_core.hpp"
#include "worker.hpp"

// How a change of attributes gets from whoever asks for it to whoever owns the fiber. What a fiber is told to be is in
// `attrs`, at once. What it is to its run queue belongs to the holder of the queue's lock, or to nobody while it sleeps; so the
// change is left at the fiber (`update`, with the bit change_is_due), and one of these takes it along:
//
//   asker, under end_lock and update.lock         owner
//   A  set the bit                                 join()         write home if it is another worker's, then look at the bit
//   B  parked? then the waker sees the bit         take_changes() notice read, queue locked: home is mine and it is queued?
//   C  read home, send it a notice                                then take the change along
//
// Invariant: while the bit is set, a join that will see it is still to come, or a notice is on its way to, or in the list of, a
// worker, who passes it on if the fiber's home is another's. Because: home is written before the bit is read, and the bit before
// home, all four sequentially consistent. Either the joiner sees the bit, or the asker sees where it has joined. A fiber that
// joins again where it was last needs no such care, as it and the notice meet under that queue's lock.
//
// Under its queue's lock and the fiber's update.lock, with the bit set and home its own, a worker may read on_rq: another worker
// where it joins has to come by update.lock first. Queued: ours. Not queued: asleep, or on its way to a join.
//
// One notice per fiber: if it lies in a list already, its owner is only woken. A fiber's end takes the bit away under
// update.lock, so a notice that is read late finds nothing to do; the end of a runtime takes back the notices that nobody read.
//
// Rejected: the run queue's lock (rule 6); a fence in every join; waiting for the worker's answer (it may be held).
// tests/model/changes_model.cpp has it, and faults of it.
namespace lagom {
inline namespace v0 {
namespace detail {

namespace {

bool is_due(const fiber_block& f) noexcept {
  return (f.rare.load(std::memory_order_seq_cst) & fiber_block::change_is_due) != 0;  // after home; see above
}

// What its affinity and `pinned` are to be. REQUIRES: update.lock; the caller owns the fiber.
void set_affinity(fiber_block& f) noexcept {
  attribute_update& u = f.update;
  if (u.has_affinity) {
    f.allowed.swap(u.allowed);  // the old one is given back by the next asker, who holds no spin lock then
    u.has_affinity = false;
  }
  if (u.is_pinned != f.is_pinned) {
    f.pin_count += u.is_pinned ? 1u : ~0u;
    f.is_pinned = u.is_pinned;
  }
}

}  // namespace

void take_affinity(fiber_block& f) noexcept {
  spin_guard hold(f.update.lock);
  if (is_due(f)) set_affinity(f);
}

scheduler::clamp_range worker::clamps() noexcept {
  spin_guard hold(queue_lock_);
  return tally_ ? tally_->summary().among(queue_.runnable()) : scheduler::clamp_range{};
}

void worker::forward_clamps(std::int64_t now, const clamp_messenger::log_line& log) noexcept {
  scheduler::clamp_summary asked;
  std::size_t runnable = 0;
  {
    spin_guard hold(queue_lock_);
    if (tally_) asked = tally_->summary();
    runnable = queue_.runnable();
  }
  messenger_.consider(thread_id(), asked, runnable, now, log);
}

// Puts the change into effect. REQUIRES: update.lock; f is queued here, or joins here next.
void worker::apply_change(fiber_block& f, std::int64_t now) noexcept {
  const attribute_update& u = f.update;
  bool displaces = false;
  if (f.kind != u.kind) {
    displaces = queue_.set_policy(f, u.kind, u.share, now);
  } else if (f.share != u.share) {
    displaces = queue_.reweight(f, u.share, now);
  }
  if (f.has_custom_slice != (u.slice != 0) || (u.slice != 0 && f.slice != u.slice)) queue_.set_slice(f, u.slice, now);
  if (displaces) resched_.store(true, std::memory_order_relaxed);  // for our own preemption points
  f.clamp = u.clamp;
  // relaxed: the bits are the owner's, but for change_is_due, which the lock guards.
  f.clamp.is_neutral() ? f.rare.fetch_and(static_cast<std::uint8_t>(~fiber_block::is_clamped), std::memory_order_relaxed)
                       : f.rare.fetch_or(fiber_block::is_clamped, std::memory_order_relaxed);
  f.rare.fetch_and(static_cast<std::uint8_t>(~fiber_block::change_is_due), std::memory_order_relaxed);  // the same
  bump(changes_taken_);
}

// The seldom half of join(): f is about to be queued here, and comes from elsewhere or has something that few have.
void worker::arrive(fiber_block& f, std::int64_t now) noexcept {
  const worker* last = f.home.load(std::memory_order_relaxed);  // the last joiner's, who handed f over
  if (last != this) {
    f.recent_worker = last ? last->index : scheduler::no_worker;
    f.home.exchange(this, std::memory_order_seq_cst);  // before the look at the bit; see above
  }
  if (is_due(f)) {
    spin_guard hold(f.update.lock);
    if (is_due(f)) {
      set_affinity(f);
      apply_change(f, now);
    }
  }
  if (!f.clamp.is_neutral()) join_tally(f);
}

// For an asker on this worker's thread, and for each notice. REQUIRES: queue_lock_ and update.lock.
void worker::take_change(fiber_block& f, std::int64_t now) noexcept {
  // seq_cst: after the bit; see above.
  if (!is_due(f) || f.home.load(std::memory_order_seq_cst) != this || !f.on_rq) return;
  if (f.delayed) return;  // asleep: its waker may be about to read its affinity. It joins again when it wakes
  set_affinity(f);
  if (f.is_bound != (f.pin_count != 0 || f.allowed)) f.is_bound ? unbind(f) : bind(f);
  apply_change(f, now);
  leave_tally(f);
  if (!f.clamp.is_neutral()) join_tally(f);
}

void worker::change_here(fiber_block& f) noexcept {
  const std::int64_t now = read_clock();
  spin_guard hold(queue_lock_);
  spin_guard also(f.update.lock);
  take_change(f, now);
}

// Gives notices of fibers that are elsewhere to the workers there; returns the others.
change_notice* worker::pass_on(change_notice* all) noexcept {
  change_notice* ours = nullptr;
  while (all) {
    change_notice* n = std::exchange(all, all->next);
    fiber_block& f = n->of;
    worker* home = nullptr;
    bool is_visitor = false;
    {
      spin_guard hold(f.update.lock);
      if (is_due(f)) home = f.home.load(std::memory_order_seq_cst);  // after the bit; see above
      if (home != this) f.update.sent_to = home;
      is_visitor = home && &home->core != &core;
      // f has not ended: the end of its runtime comes later than our release of the lock, and waits for visitors.
      if (is_visitor) home->core.visitors.fetch_add(1, std::memory_order_relaxed);
    }
    if (home == this) {
      n->next = std::exchange(ours, n);
    } else if (home) {
      runtime_core& theirs = home->core;
      home->accept(n);
      if (is_visitor) theirs.visitors.fetch_sub(1, std::memory_order_release);  // our last touch; pairs with terminate()
    }
  }
  return ours;
}

void worker::take_changes() noexcept {
  change_notice* all = pass_on(changes_.take_all());
  while (all) {
    const std::int64_t now = read_clock();
    change_notice* moved = nullptr;
    {
      spin_guard hold(queue_lock_);
      while (all) {
        change_notice* n = std::exchange(all, all->next);
        fiber_block& f = n->of;
        spin_guard also(f.update.lock);
        take_change(f, now);
        // Stolen since, and changed again there, and its asker counted on our having the notice?
        if (is_due(f) && f.home.load(std::memory_order_seq_cst) != this) {  // after the bit; see above
          n->next = std::exchange(moved, n);
        } else {
          f.update.sent_to = nullptr;
        }
      }
    }
    all = pass_on(moved);
  }
}

void worker::accept(change_notice* n) noexcept {
  if (n) changes_.push(*n);
  if (core.idle.claim(seat)) {
    notify();
  } else {
    resched_.store(true, std::memory_order_relaxed);  // a hint for preemption points; the next step finds it at the latest
  }
}

// REQUIRES: the workers' threads have ended.
void worker::drop_notices() noexcept {
  for (change_notice* n = changes_.take_all(); n;) {
    change_notice* next = n->next;
    spin_guard hold(n->of.update.lock);
    n->of.update.sent_to = nullptr;
    n = next;
  }
}

// f is on its own stack, with a quiet word, on this worker: may it be here?
void worker::move_if_misplaced(fiber_block& f) noexcept {
  if (f.pin_count != 0 || f.stay_count != 0) return;  // later
  if (f.allowed && !f.allowed[index]) return yield_away(f);
  f.rare.fetch_and(static_cast<std::uint8_t>(~fiber_block::may_be_misplaced), std::memory_order_relaxed);  // its own
  if (is_due(f)) f.rare.fetch_or(fiber_block::may_be_misplaced, std::memory_order_relaxed);  // another change is on its way
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
