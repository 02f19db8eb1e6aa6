// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <vector>

#include "scheduler/features.hpp"
#include "scheduler/run_queue.hpp"

// EEVDF of one queue, written down as plainly as possible: no tree, no sums kept, no wrap-around, every question answered
// by looking at everybody. Virtual times are 128-bit numbers of 2^-10 ns.
namespace lagom::test {

using scheduler::delayed_rule;
using scheduler::lag_rule;
using scheduler::nanos;
using scheduler::wide;
using scheduler::window_rule;
using scheduler::yield_rule;

inline wide floor_div(wide a, wide b) { return a / b - (a % b < 0 ? 1 : 0); }

struct model_entity {
  wide w = 1024;
  nanos slice = 0, exec = 0;
  wide v = 0, d = 0, vlag = 0, window = 0, request = 0;
  bool custom = false, idle = false, batch = false, on_rq = false, delayed = false, relative = false, open = false;
  std::uint64_t seq = 0;
  bool owes = false;  // parked in debt on this queue
};

class model {
 public:
  model(const scheduler::features& knobs, wide start) : f(knobs), last_v_(start) {}

  scheduler::features f;
  std::list<model_entity> all;
  model_entity* curr = nullptr;
  model_entity* buddy = nullptr;
  bool need_resched = false;

  static wide virt(nanos ns, wide w) { return (static_cast<wide>(ns) << 20) / w; }
  wide sum_w() const { return sum([](const model_entity& e) { return e.w; }); }
  wide sum_wv() const { return sum([](const model_entity& e) { return e.w * e.v; }); }
  wide V() const { return count() == 0 ? last_v_ : floor_div(sum_wv(), sum_w()); }
  bool eligible(const model_entity& e) const { return sum_wv() >= e.v * sum_w(); }
  int count() const { return static_cast<int>(sum([](const model_entity&) { return wide{1}; })); }

  void charge(nanos ran) {
    if (curr == nullptr || ran <= 0) return;
    model_entity& e = *curr;
    e.exec += ran;
    e.v += virt(ran, e.w);
    const bool over = f.window == window_rule::request
                          ? f.preempt_short && !(e.open && e.window == e.d) && !eligible(e)
                          : !is_protected(e);
    const bool ended = e.v >= e.d;
    if (ended) renew(e);
    if ((ended || over) && count() > 1) {
      need_resched = true;
      if (buddy == &e) buddy = nullptr;
    }
  }

  model_entity* pick() {
    model_entity* next = choose_live(true);
    need_resched = false;
    if (next != nullptr && next->idle && f.idle_stint != 0 && work_beside_idle()) {
      next->d = std::min(next->d, next->v + virt(f.idle_stint, next->w));
      if (f.window != window_rule::request) next->window = std::min(next->window, next->d);
    }
    if (next == curr) {
      if (next != nullptr && f.repick_protect) protect(*next, false);
      return next;
    }
    if (curr != nullptr && curr->on_rq) curr->seq = ++seq_;
    curr = next;
    if (next != nullptr) {
      if (buddy == next) buddy = nullptr;
      protect(*next, false);
    }
    return next;
  }

  bool join(model_entity& e, bool initial, bool woken) {
    if (!e.delayed || !e.on_rq) {
      if (woken || initial) e.delayed = false;
      place(e, initial, woken);
    } else {
      bool moved = save_lag(e);
      e.delayed = false;
      if (f.delayed_lag == delayed_rule::cut_credit) {
        moved = f.delay_zero && e.vlag > 0;
        if (moved) e.vlag = 0;
      }
      if (moved) {
        take_out(e);
        place(e, false, false);
      }
    }
    return check_preemption(e, initial);
  }

  void park() {
    if (f.delay_dequeue && !eligible(*curr)) {
      save_lag(*curr);
      curr->delayed = true;
      if (buddy == curr) buddy = nullptr;
    } else {
      leave(*curr, true);
    }
  }

  void leave(model_entity& e, bool sleep) {
    save_lag(e);
    if (e.delayed && f.delayed_lag == delayed_rule::cut_credit && f.delay_zero) e.vlag = std::min<wide>(e.vlag, 0);
    if (!sleep && f.place_rel_deadline) {
      e.d -= e.v;
      e.relative = true;
    }
    if (buddy == &e) buddy = nullptr;
    take_out(e);
    e.delayed = e.delayed && !sleep;
    if (sleep) e.owes = f.repay_asleep && e.vlag < 0;
  }

  void yield() {
    if (count() < 2) return;
    if (f.yield_mode == yield_rule::deadline) {
      curr->d += curr->request;
    } else if (f.yield_mode == yield_rule::forfeit_always ||
               sum_wv() >= (curr->v - virt(f.yield_granularity, curr->w)) * sum_w()) {
      curr->v = curr->d;
      renew(*curr);
    }
  }

  bool yield_to(model_entity& e) {
    if (!e.on_rq || e.delayed) return false;
    if (!e.idle) buddy = &e;
    yield();
    return true;
  }

  bool reweight(model_entity& e, wide w) {
    const wide old = e.w;
    set_weight(e, w);
    if (&e == curr) return w < old && count() > 1 && (need_resched = true);
    return e.on_rq && w != old && check_preemption(e, false);
  }

  void set_slice(model_entity& e, nanos slice) {
    const bool was = e.on_rq;
    if (was) leave(e, false);
    e.custom = slice != 0;
    e.slice = slice != 0 ? std::clamp(slice, f.slice_min, f.slice_max) : f.base_slice;
    set_request(e);
    if (was) place(e, false, false);
  }

  bool set_idle(model_entity& e, bool idle, wide w) {
    const bool was = e.on_rq;
    if (was) leave(e, false);
    e.idle = idle;
    set_weight(e, w);
    if (!was) return false;
    place(e, false, false);
    if (&e == curr && idle && f.idle_stint != 0 && work_beside_idle()) return need_resched = true;
    return check_preemption(e, false);
  }

  bool is_protected(const model_entity& e) const {
    return f.window == window_rule::request ? f.run_to_parity && e.open && e.window == e.d : e.v < e.window;
  }

  bool has_only_idle() const {
    return !work_beside_idle() && sum([](const model_entity& e) { return wide{!e.delayed}; }) != 0;
  }

 private:
  template <class F>
  wide sum(F&& of) const {
    wide total = 0;
    for (const model_entity& e : all) total += e.on_rq ? of(e) : wide{0};
    return total;
  }
  nanos shortest() const {
    nanos low = INT64_MAX;
    for (const model_entity& e : all) low = e.on_rq ? std::min(low, e.slice) : low;
    return low;
  }
  nanos longest() const {
    nanos high = 0;
    for (const model_entity& e : all) high = e.on_rq ? std::max(high, e.slice) : high;
    return high;
  }
  wide limit(const model_entity& e, nanos granularity) const {
    return virt(f.lag_limit == lag_rule::twice_own_slice ? std::max(2 * e.slice, granularity) : longest() + granularity, e.w);
  }

  // Somebody of another class could run.
  bool work_beside_idle() const {
    return sum([](const model_entity& e) { return wide{!e.idle && !e.delayed}; }) != 0;
  }
  void set_request(model_entity& e) const {
    const bool is_short = e.idle && f.idle_stint != 0 && work_beside_idle();
    e.request = virt(is_short ? std::min(e.slice, f.idle_stint) : e.slice, e.w);
  }

  // The one place where the line wraps in the model too: nobody knows how often it did while e slept.
  wide ahead(const model_entity& e) const { return static_cast<std::int64_t>(static_cast<std::uint64_t>(e.v - V())); }

  bool save_lag(model_entity& e) {
    const wide actual = V() - e.v;
    wide lag = std::max(-limit(e, f.debt_granularity), std::min(limit(e, f.credit_granularity), actual));
    if (e.delayed && f.delayed_lag == delayed_rule::never_grows) {
      lag = std::min(std::max(lag, e.vlag), f.delay_zero ? wide{0} : limit(e, f.credit_granularity));
    }
    e.vlag = lag;
    return lag != actual;
  }

  void take_out(model_entity& e) {
    last_v_ = V();
    e.on_rq = false;
  }

  void place(model_entity& e, bool initial, bool woken) {
    const wide v = V(), W = sum_w();
    if (!e.custom) e.slice = f.base_slice;
    set_request(e);
    if (e.idle && woken && f.cut_idle_credit && work_beside_idle()) e.vlag = std::min<wide>(e.vlag, 0);
    wide to = v;
    if (W != 0 && f.place_lag) {
      to = v - e.vlag * (W + e.w) / W;
      // Had it stayed, it would be where it was, until the others' mean passes it.
      if (woken && e.owes) to = std::max(v, std::min(to, v + ahead(e)));
    }
    e.v = to;
    e.d = f.place_rel_deadline && e.relative ? e.d + e.v
                                             : e.v + (initial && f.place_deadline_initial ? e.request / 2 : e.request);
    e.relative = e.owes = false;
    e.seq = ++seq_;
    e.on_rq = true;
  }

  void renew(model_entity& e) {
    if (!e.custom) e.slice = f.base_slice;
    if (e.idle || e.request != virt(e.slice, e.w)) set_request(e);
    e.d = (e.idle && f.idle_stint != 0 && work_beside_idle() ? std::max(e.v, V()) : e.v) + e.request;
  }

  void set_weight(model_entity& e, wide w) {
    const wide old = e.w, v = V();
    if (e.on_rq) {
      const bool rescale_window = &e == curr && f.window != window_rule::request && is_protected(e);
      save_lag(e);
      e.d = v + (e.d - v) * old / w;
      if (rescale_window) e.window = v + (e.window - v) * old / w;
      e.open = false;
    } else {
      if (e.relative) e.d = e.d * old / w;
      if (e.owes && ahead(e) <= 0) {
        e.vlag = 0;
        e.owes = false;
      }
      if (e.owes && w != old) e.v = v + std::min(ahead(e) * old / w, wide{1} << 61);
    }
    e.vlag = e.vlag * old / w;
    e.w = w;
    if (e.slice > 0) set_request(e);
    if (e.on_rq) e.v = v - e.vlag;
  }

  void end_protection(model_entity& e) {
    if (!is_protected(e)) return;
    e.open = false;
    if (f.window != window_rule::request) e.window = e.v;
  }

  void protect(model_entity& e, bool tighten) {
    const bool normalized = !f.run_to_parity && f.window != window_rule::request && !tighten;
    const nanos low = normalized ? f.norm_slice : shortest();
    wide end = low >= e.slice ? e.d : std::min(e.d, e.v + virt(low, e.w));
    if (f.window == window_rule::request) end = e.d;
    if (f.window == window_rule::eligibility && !normalized) {
      end = std::min(e.d, e.v + virt(std::min(low, e.slice), e.w));
      if (low < e.slice && f.preempt_short) {
        const wide mine = e.on_rq ? e.w : 0;
        end = std::min(end, floor_div(sum_wv() - mine * e.v, sum_w() - mine) + 1024);
      }
    }
    e.window = tighten ? std::min(e.window, end) : end;
    if (!tighten) e.open = true;
  }

  model_entity* choose(bool honour) {
    std::vector<model_entity*> queued;
    for (model_entity& e : all) {
      if (e.on_rq) queued.push_back(&e);
    }
    if (queued.size() < 2) return queued.empty() ? nullptr : queued[0];
    const wide s = sum_wv(), W = sum_w();
    if (f.pick_buddy && honour && buddy != nullptr && s >= buddy->v * W) return buddy;
    model_entity* c = curr != nullptr && curr->on_rq && s >= curr->v * W ? curr : nullptr;
    if (c != nullptr && honour && is_protected(*c)) return c;
    model_entity* best = nullptr;
    for (model_entity* e : queued) {
      if (e == curr || s < e->v * W) continue;
      if (best == nullptr || e->d < best->d || (e->d == best->d && e->seq < best->seq)) best = e;
    }
    return best == nullptr || (c != nullptr && c->d < best->d) ? c : best;
  }

  model_entity* choose_live(bool honour) {
    model_entity* e = choose(honour);
    while (e != nullptr && e->delayed) {
      leave(*e, true);
      e = choose(honour);
    }
    return e;
  }

  bool check_preemption(model_entity& e, bool fork) {
    if (curr == nullptr) return true;
    model_entity& c = *curr;
    const bool parity = f.window == window_rule::eligibility, is_short = f.preempt_short && e.slice < c.slice;
    if (&e == &c || e.delayed || (need_resched && !(parity && f.preempt_short)) || !f.wakeup_preemption) return false;
    if (c.idle && !e.idle) {
      end_protection(c);
      return need_resched = true;
    }
    if (c.idle || e.idle || e.batch) return false;
    if (f.window == window_rule::request) {
      if (is_short && eligible(e) && (e.d < c.d || !eligible(c))) end_protection(c);
      return choose(true) == &e && (need_resched = true);
    }
    if (!is_short && f.wakeup_granularity != 0 && is_protected(c)) {
      if (!eligible(c)) c.window = std::min(c.window, c.v + virt(f.wakeup_granularity, c.w));
      return false;
    }
    bool hit = false;
    if (is_short || !fork || f.fork_preempt) {
      hit = (f.delayed_lag == delayed_rule::never_grows ? choose_live(!is_short) : choose(!is_short)) == &e;
    }
    if (is_short && parity && eligible(e)) {
      hit = true;
      if (buddy == nullptr || buddy->slice >= e.slice) buddy = &e;
    }
    if (hit) {
      if (is_short) end_protection(c);
      return need_resched = true;
    }
    if (f.run_to_parity) protect(c, true);
    return false;
  }

  wide last_v_;
  std::uint64_t seq_ = 0;
};

}  // namespace lagom::test
