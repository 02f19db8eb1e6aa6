// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>

#include "entity.hpp"
#include "features.hpp"
#include "virtual_time.hpp"
#include "waiting.hpp"
#include "weight.hpp"

namespace lagom::scheduler {

enum class joining : std::uint8_t { spawned, woken, migrated };
enum class leaving : std::uint8_t { parked, exited, migrated };

// One EEVDF run queue: which of the entities queued here runs next, and when another should.
//
// Not thread-safe; the caller holds the queue (one owner, or its lock). Every verb takes `now`, a monotone real time;
// the verbs account for the current entity up to `now` themselves, so one clock reading serves as the end of one stint,
// the stamp of wake-ups and the start of the next stint. Nothing allocates, nothing throws. docs/scheduling.md has the
// mathematics.
//
// One step of a worker:
//   yields:   next = queue.yield_and_pick(now)
//   parks:    next = queue.park_and_pick(now)
//   exits:    queue.dequeue(*current, leaving::exited, now); next = queue.pick(now)
//   wakes e:  if (queue.enqueue(e, joining::woken, now)) { the current entity should give way soon: need_resched() }
//   at preemption points:  if (queue.charge(now)) next = queue.pick(now)
// pick() may return the entity that ran before, and nullptr when nothing is runnable.
class run_queue {
 public:
  // The queue's virtual time begins at `start`: anything will do, and tests begin near the ends of the range.
  explicit run_queue(const features& knobs = features::runtime(), virtual_time start = {}) noexcept;
  run_queue(const run_queue&) = delete;
  run_queue& operator=(const run_queue&) = delete;

  // e joins: a new one at V with half a request to its virtual deadline; a woken one with its lag and a new request; a
  // migrated one with its lag and the rest of its request. True: the current entity should be displaced (or there is
  // none), so pick() soon; need_resched() keeps it in mind. A delayed e is woken in place.
  // REQUIRES: e is on no run queue, or is delayed on this one and why is woken. O(log n), O(1) for few entities.
  bool enqueue(entity& e, joining why, nanos now);

  // e leaves. With features::delay_dequeue an ineligible e that parks stays queued as `delayed` (e.on_rq tells), until
  // a pick drops it, it is woken, or it is dequeued for another reason. If e is the current entity, pick() must follow.
  // REQUIRES: e is on this run queue; only the current entity parks. O(log n), O(1) for few entities.
  void dequeue(entity& e, leaving why, nanos now);

  // Puts the current entity back if it is still queued and chooses who runs from `now` on: that is current() from here.
  // nullptr: nobody is runnable.
  entity* pick(nanos now);

  // Accounts for the current entity up to `now`; true: it should give way (its request or its protection is over, or a
  // wake-up asked for it). Does nothing if now is not later than the last time.
  bool charge(nanos now);

  // The current entity gives way: it forfeits the rest of its request (features::yield_mode). pick() must follow.
  void yield(nanos now);
  // The same in favour of `target`, which goes first if it is eligible. False, and nothing happens, if target is not
  // waiting here. pick() must follow if true.
  bool yield_to(entity& target, nanos now);

  entity* yield_and_pick(nanos now);
  entity* park_and_pick(nanos now);  // REQUIRES: there is a current entity

  // Attribute changes, of a queued entity (current or waiting) or of one that is on no queue. V does not move; lag and
  // the rest of the request are kept in real terms. True: as for enqueue().
  bool reweight(entity& e, weight share, nanos now);
  bool set_policy(entity& e, policy kind, weight share, nanos now);
  // 0: default mode. Clamped to features::slice_min … slice_max. Counts from the next request.
  void set_slice(entity& e, nanos slice, nanos now);
  // Entities in default mode follow at their next request.
  void set_default_slice(nanos slice);

  [[nodiscard]] entity* current() const { return current_; }
  [[nodiscard]] std::size_t queued() const { return queued_; }               // current and delayed ones included
  [[nodiscard]] std::size_t runnable() const { return queued_ - delayed_; }  // current included
  [[nodiscard]] std::int64_t total_weight() const { return total_weight_; }  // of all queued, scaled; a measure of load
  // Runnable work, all of the idle class. O(1).
  [[nodiscard]] bool has_only_idle() const { return idle_ != 0 && idle_ == runnable(); }
  [[nodiscard]] bool need_resched() const { return need_resched_; }
  void request_resched() { need_resched_ = true; }  // until the next pick
  // The current entity is within its window of run to parity.
  [[nodiscard]] bool is_protected() const;
  // Owed service or even: lag >= 0, without the division of V, which would round away what decides.
  [[nodiscard]] bool is_eligible(const entity& e) const {
    return static_cast<wide>(key(e).ticks) * total_weight_ <= offsets_;
  }
  // V, the weighted mean of all vruntimes, rounded down; of an empty queue its last value.
  [[nodiscard]] virtual_time virtual_now() const;
  // What e, queued here, is owed (negative: owes), in real nanoseconds.
  [[nodiscard]] nanos service_lag(const entity& e) const;
  // Real time until the current request or window ends, at least 1: when charge() will next say true if nobody joins.
  // A queue with one entity never says so. REQUIRES: there is a current entity.
  [[nodiscard]] nanos time_left() const;
  [[nodiscard]] const features& knobs() const { return knobs_; }

  // For thieves: the waiting entity with the latest virtual deadline that is not delayed and that may_take(entity)
  // allows; it would run last here. Looks at `at_most` entities. Then: victim.dequeue(e, migrated), own.enqueue(e,
  // migrated).
  template <class MayTake>
  [[nodiscard]] entity* steal_candidate(MayTake&& may_take, std::size_t at_most = 32) const;

  // All queued entities, in no order.
  template <class Visit>
  void for_each(Visit&& visit) const;

  // Walks everything and asserts what must hold after every verb; for tests. O(n).
  void check_invariants() const;

 private:
  // placement.cpp
  [[nodiscard]] virtual_span lag_limit(const entity& e, nanos granularity) const;
  [[nodiscard]] virtual_span permitted_lag(const entity& e, virtual_span actual) const;
  [[nodiscard]] virtual_time place_debtor(const entity& e) const;
  void rescale(entity& e, weight share);
  void wake_delayed(entity& e);

  // preemption.cpp
  void end_protection(entity& e);
  enum class moment : std::uint8_t { pick, failed_preemption };
  [[nodiscard]] virtual_time window_end(const entity& e, moment when) const;
  [[nodiscard]] virtual_time virtual_time_of_others(const entity& e) const;
  bool preempts_by_request(entity& e);
  bool preempts_short(entity& e);

  // run_queue_inline.hpp: the way of every step
  enum class honour : std::uint8_t { protection, nothing };
  [[nodiscard]] inline bool is_protected(const entity& e) const;
  [[nodiscard]] inline bool has_whole_window(const entity& e) const;
  inline void protect(entity& e);
  inline void tighten_window(entity& e);
  inline bool preempts_by_pick(entity& e, joining why);
  inline bool check_preemption(entity& e, joining why);
  [[nodiscard]] bool is_work_beside_idle() const { return idle_ != runnable(); }
  inline bool save_lag(entity& e);
  inline void join(entity& e, joining why);
  inline void leave(entity& e, leaving why);
  inline void take_out(entity& e);
  inline entity* choose(honour what);
  inline entity* choose_runnable(honour what);
  inline entity* switch_to(entity* next);
  inline void account(entity& e, nanos ran);
  inline void account_until(nanos now);
  inline void forfeit();
  [[nodiscard]] inline bool owes_little(const entity& e) const;
  inline bool renew_if_over(entity& e);
  inline void renew(entity& e);
  inline void move(entity& e, virtual_span by);
  inline void set_request(entity& e, nanos slice);
  inline void insert(entity& e);
  inline void move_origin(virtual_time to);
  inline void add_to_sums(const entity& e);
  inline void remove_from_sums(const entity& e);

  // run_queue.cpp: what is rare
  entity* first_eligible();
  entity* drop_sleepers(entity& sleeper, honour what);
  void account_long(entity& e, nanos ran);
  void renew_far(entity& e);
  void prepare_idle(entity& e, joining why);
  void limit_request(entity& e);
  void renew_idle(entity& e);
  void shorten_request(entity& e);
  [[nodiscard]] virtual_span key(const entity& e) const { return e.vruntime - origin_; }
  [[nodiscard]] nanos shortest_queued_slice() const;
  [[nodiscard]] nanos longest_queued_slice() const;

  entity* current_ = nullptr;
  entity* buddy_ = nullptr;  // goes first at the next pick if eligible
  nanos charged_until_ = 0;
  std::uint64_t last_sequence_ = 0;

  // V = origin_ + offsets_ / total_weight_ over all queued, the current one included; kept as a fraction, since the
  // division loses exactly the precision that decides who is eligible.
  wide offsets_ = 0;                // sum of share.scaled * (vruntime - origin_)
  std::int64_t total_weight_ = 0;   // sum of share.scaled
  virtual_time origin_;             // near V; V itself while the queue is empty

  std::uint32_t queued_ = 0;
  std::uint32_t delayed_ = 0;
  std::uint32_t idle_ = 0;  // of the idle class and runnable
  bool need_resched_ = false;
  waiting waiting_;
  features knobs_;
};

template <class MayTake>
entity* run_queue::steal_candidate(MayTake&& may_take, std::size_t at_most) const {
  waiting::from_the_last walk(waiting_);
  for (entity* e = walk.next(); e != nullptr && at_most > 0; e = walk.next(), --at_most) {
    if (!e->delayed && may_take(*e)) {
      return e;
    }
  }
  return nullptr;
}

template <class Visit>
void run_queue::for_each(Visit&& visit) const {
  if (current_ != nullptr && current_->on_rq) {
    visit(static_cast<const entity&>(*current_));
  }
  waiting_.for_each(visit);
}

}  // namespace lagom::scheduler
