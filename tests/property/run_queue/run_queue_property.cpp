// SPDX-License-Identifier: BSL-1.0
// The run queue against a model without a tree, on random histories: every entity's every number after every event.
//
// usage: run_queue_property [FIRST_SEED [COUNT]]; a failure prints the seed.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>

#include "model.hpp"

namespace lagom::test {
namespace {

using namespace lagom::scheduler;

constexpr std::uint32_t weights[] = {2, 3, 15, 1024, 88761};
constexpr std::uint64_t starts[] = {0, 0 - (std::uint64_t{1} << 30), std::uint64_t{1} << 62, (std::uint64_t{1} << 63) - 5'000'000,
                                    0 - std::uint64_t{5'000'000}};

class history {
 public:
  explicit history(std::uint64_t seed)
      : seed_(seed), random_(seed), knobs_(random_knobs()), start_(starts[random_() % 5]), queue_(knobs_, {start_}),
        model_(knobs_, start_) {
    constexpr std::size_t sizes[] = {1, 2, 3, 5, 17, 40, 150, 1000};
    most_ = sizes[below(8)];
    uniform_ = below(3) == 0;
    idle_percent_ = chance(30) ? 50 : 5;
  }

  bool run() {
    const int events = most_ > 40 ? 300 : 600;
    for (step_ = 0; step_ < events && is_right_; ++step_) {
      const bool grows = pairs_.size() < most_ && (most_ > 40 || below(3) == 0);
      for (std::size_t i = 0; grows && i < 1 + most_ / 50; ++i) spawn();
      random_event();
      compare();
    }
    return is_right_;
  }

 private:
  struct pair {
    entity real{};
    model_entity* ideal = nullptr;
    bool is_batch = false;
  };

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  bool chance(std::uint64_t percent) { return below(100) < percent; }

  features random_knobs() {
    constexpr std::string_view presets[] = {"linux-7.1", "linux-6.18", "linux-6.12", "tip-2026-09", "runtime"};
    features f = *features::preset(presets[below(5)]);
    if (chance(50)) f.window = static_cast<window_rule>(below(3));
    for (bool features::*flag : {&features::place_lag, &features::place_deadline_initial, &features::place_rel_deadline,
                                 &features::run_to_parity, &features::preempt_short, &features::wakeup_preemption,
                                 &features::pick_buddy, &features::delay_dequeue, &features::delay_zero}) {
      if (chance(10)) f.*flag = !(f.*flag);
    }
    if (chance(20)) f.repick_protect = true;
    if (chance(20)) f.fork_preempt = !f.fork_preempt;
    if (chance(20)) f.repay_asleep = !f.repay_asleep;
    if (chance(20)) f.yield_mode = static_cast<yield_rule>(below(3));
    if (chance(20)) f.lag_limit = static_cast<lag_rule>(below(2));
    if (chance(20)) f.delayed_lag = static_cast<delayed_rule>(below(2));
    if (chance(10)) f.wakeup_granularity = chance(50) ? 0 : 300'000;
    if (chance(10)) f.yield_granularity = chance(50) ? 0 : 2'000'000;
    if (chance(30)) f.idle_stint = chance(50) ? 0 : 20'000;
    if (chance(20)) f.cut_idle_credit = !f.cut_idle_credit;
    if (chance(20)) f.credit_granularity = f.debt_granularity = 0;
    return f;
  }

  nanos random_slice() {
    constexpr nanos slices[] = {0, 0, 100'000, 500'000, 3'000'000, 100'000'000, 50};
    return uniform_ ? 0 : slices[below(7)];
  }
  std::uint32_t random_weight() { return uniform_ ? 1024 : weights[below(5)]; }
  nanos random_run() {
    constexpr nanos orders[] = {10, 1'000, 100'000, 3'000'000, 60'000'000};
    return static_cast<nanos>(1 + below(static_cast<std::uint64_t>(orders[below(5)])));
  }

  void spawn() {
    pair& p = pairs_.emplace_back();
    p.ideal = &model_.all.emplace_back();
    p.ideal->w = random_weight();
    p.real.share = weight::of_units(static_cast<std::uint32_t>(p.ideal->w));
    p.ideal->batch = p.is_batch = !uniform_ && chance(5);
    p.ideal->idle = !uniform_ && chance(idle_percent_);
    p.real.kind = kind_of(p.ideal->idle, p.is_batch);
    set_slice(p, random_slice());
    join(p, joining::spawned);
  }
  static policy kind_of(bool is_idle, bool is_batch) {
    return is_idle ? policy::idle : is_batch ? policy::batch : policy::normal;
  }

  void set_slice(pair& p, nanos slice) {
    queue_.set_slice(p.real, slice, now_);
    model_.set_slice(*p.ideal, slice);
  }
  void join(pair& p, joining why) {
    const bool real = queue_.enqueue(p.real, why, now_);
    const bool ideal = model_.join(*p.ideal, why == joining::spawned, why == joining::woken);
    decided(real, ideal);
  }
  void decided(bool real, bool ideal) {
    expect(real == ideal, "decision");
    if (real && (queue_.current() == nullptr || chance(80))) pick();
  }
  void pick() {
    queue_.pick(now_);
    model_.pick();
  }
  void advance(nanos ran) {
    now_ += ran;
    queue_.charge(now_);
    model_.charge(ran);
  }
  pair& any() { return pairs_[below(pairs_.size())]; }

  // 300 days, but only alone: with others waiting it would be an overrun beyond the horizon.
  void random_run_event() {
    const bool is_alone = model_.count() == 1 && model_.curr != nullptr && model_.curr->on_rq;
    advance(is_alone && chance(10) ? nanos{300} * 86'400 * 1'000'000'000 : random_run());
    if (queue_.need_resched() && chance(70)) pick();
  }

  void random_event() {
    if (pairs_.empty()) return spawn();
    const std::uint64_t what = below(100);
    if (what < 30) return random_run_event();
    if (what < 35) return pick();
    if (what < 60) return current_event(what);
    pair& p = any();
    if (what < 80) return wake_or_migrate(p);
    change(p, what);
  }

  void current_event(std::uint64_t what) {
    if (model_.curr == nullptr) return;
    if (what < 45) {
      queue_.yield(now_);
      model_.yield();
    } else if (what < 47) {
      queue_.dequeue(*queue_.current(), leaving::exited, now_);
      model_.leave(*model_.curr, true);
    } else if (what < 57) {
      queue_.dequeue(*queue_.current(), leaving::parked, now_);
      model_.park();
    } else {
      pair& target = any();
      const bool real = queue_.yield_to(target.real, now_);
      expect(real == model_.yield_to(*target.ideal), "yield_to");
    }
    pick();
  }

  void wake_or_migrate(pair& p) {
    if (p.real.on_rq && !p.real.delayed) {
      if (&p.real != queue_.current() && chance(40)) {
        queue_.dequeue(p.real, leaving::migrated, now_);
        model_.leave(*p.ideal, false);
      }
    } else if (p.real.delayed && !p.real.on_rq) {
      join(p, joining::migrated);
    } else {
      join(p, chance(80) || p.real.on_rq ? joining::woken : joining::migrated);
    }
  }

  void change(pair& p, std::uint64_t what) {
    if (what < 87) {
      const std::uint32_t w = random_weight();
      const bool real = queue_.reweight(p.real, weight::of_units(w), now_);
      return decided(real, model_.reweight(*p.ideal, w));
    }
    if (what < 93) return set_slice(p, random_slice());
    if (what < 98) {
      const bool idle = !uniform_ && chance(50);
      const std::uint32_t w = idle ? 3 : random_weight();
      const bool real = queue_.set_policy(p.real, kind_of(idle, p.is_batch), weight::of_units(w), now_);
      return decided(real, model_.set_idle(*p.ideal, idle, w));
    }
    const nanos base = 200'000 + static_cast<nanos>(below(5)) * 700'000;
    queue_.set_default_slice(base);
    model_.f.base_slice = base;
  }

  void expect(bool is_right, const char* what) {
    if (!is_right && is_right_) {
      std::printf("seed %" PRIu64 ", step %d: %s differs\n", seed_, step_, what);
      is_right_ = false;
    }
  }

  void compare() {
    queue_.check_invariants();
    expect(queue_.virtual_now().ticks == static_cast<std::uint64_t>(model_.V()), "V");
    expect(queue_.need_resched() == model_.need_resched, "need_resched");
    expect(static_cast<int>(queue_.queued()) == model_.count(), "the number queued");
    expect(queue_.has_only_idle() == model_.has_only_idle(), "only idle");
    const wide s = model_.sum_wv(), w = model_.sum_w();
    for (const pair& p : pairs_) {
      const model_entity& m = *p.ideal;
      expect((&p.real == queue_.current()) == (&m == model_.curr), "the current entity");
      expect(p.real.on_rq == m.on_rq && p.real.delayed == m.delayed, "on_rq or delayed");
      expect(p.real.vruntime.ticks == static_cast<std::uint64_t>(m.v), "vruntime");
      expect(p.real.virtual_deadline.ticks == static_cast<std::uint64_t>(m.d), "virtual deadline");
      expect(p.real.vlag.ticks == m.vlag, "vlag");
      expect(p.real.slice == m.slice && p.real.sum_exec == m.exec, "slice or service");
      if (m.on_rq) expect(queue_.is_eligible(p.real) == (s >= m.v * w), "eligible");
    }
    if (model_.curr != nullptr && model_.curr->on_rq && model_.count() > 1) {
      expect(queue_.is_protected() == model_.is_protected(*model_.curr), "protected");
    }
  }

  std::uint64_t seed_;
  std::mt19937_64 random_;
  features knobs_;
  std::uint64_t start_;
  run_queue queue_;
  model model_;
  std::deque<pair> pairs_;
  std::size_t most_ = 1;
  bool uniform_ = false;
  std::uint64_t idle_percent_ = 5;
  nanos now_ = 0;
  int step_ = 0;
  bool is_right_ = true;
};

}  // namespace
}  // namespace lagom::test

int main(int argc, char** argv) {
  const std::uint64_t first = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const std::uint64_t usual = std::getenv("LAGOM_TEST_SHORT") != nullptr ? 40 : 400;
  const std::uint64_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : usual;
  std::printf("run queue against its model: seeds %" PRIu64 " … %" PRIu64 "\n", first, first + count - 1);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    if (!lagom::test::history(seed).run()) {
      return 1;
    }
  }
  return 0;
}
