// SPDX-License-Identifier: BSL-1.0
// What the policy costs per step of a worker, without any fiber: nanoseconds per yield, per park + wake, per wake-up
// chain, at 2 to 10,000 entities. Prints one table; the best of several rounds, since everything else only adds.
// Pin it: taskset -c 1 run_queue_bench [ROUNDS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "scheduler/run_queue.hpp"

namespace {

using namespace lagom::scheduler;
using steady = std::chrono::steady_clock;

constexpr nanos stint = 150;      // what a fiber runs between two steps
constexpr int steps = 20'000;  // per round: short enough that some rounds are not interrupted

enum class mix { equal, weights, slices };

class crowd {
 public:
  crowd(std::size_t size, mix kind) : queue_(std::make_unique<run_queue>(features::runtime())), entities_(size) {
    std::mt19937 random(7);
    for (entity& e : entities_) {
      if (kind == mix::weights) {
        e.share = weight_of_nice(static_cast<int>(random() % 11) - 5);
      }
      if (kind == mix::slices && random() % 4 == 0) {
        queue_->set_slice(e, 100'000 + static_cast<nanos>(random() % 16) * 50'000, now_);
      }
      queue_->enqueue(e, joining::spawned, now_);
    }
    queue_->pick(now_);
  }

  void yields(int count) {
    for (int i = 0; i < count; ++i) {
      now_ += stint;
      queue_->yield_and_pick(now_);
    }
  }

  // The current one parks, the next is picked and wakes it at once: the number queued stays.
  void parks_and_wakes(int count) {
    for (int i = 0; i < count; ++i) {
      now_ += stint;
      entity* parked = queue_->current();
      queue_->park_and_pick(now_);
      queue_->enqueue(*parked, joining::woken, now_);
      if (queue_->current() == nullptr) {
        queue_->pick(now_);
      }
    }
  }

  // Preemption points without a switch: what a checkpoint costs.
  void charges(int count) {
    for (int i = 0; i < count; ++i) {
      now_ += stint;
      if (queue_->charge(now_)) {
        queue_->pick(now_);
      }
    }
  }

 private:
  nanos now_ = 1'000'000'000;
  std::unique_ptr<run_queue> queue_;
  std::vector<entity> entities_;
};

// Two that run in turns, each alone: A wakes B and parks.
class pair_in_turns {
 public:
  pair_in_turns() {
    queue_.enqueue(a_, joining::spawned, now_);
    queue_.pick(now_);
  }
  void turns(int count) {
    for (int i = 0; i < count; ++i) {
      now_ += stint;
      entity& sleeper = queue_.current() == &a_ ? b_ : a_;
      queue_.enqueue(sleeper, joining::woken, now_);
      queue_.park_and_pick(now_);
    }
  }

 private:
  nanos now_ = 1'000'000'000;
  run_queue queue_{features::runtime()};
  entity a_{}, b_{};
};

template <class Body>
double best_ns(int rounds, Body body) {
  double best = 1e300;
  body(5 * steps);
  for (int i = 0; i < rounds; ++i) {
    const auto start = steady::now();
    body(steps);
    const std::chrono::duration<double, std::nano> took = steady::now() - start;
    best = std::min(best, took.count() / steps);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 50;
  pair_in_turns pair;
  std::printf("wake + park, two in turns: %.1f ns\n", best_ns(rounds, [&](int n) { pair.turns(n); }));
  std::printf("%8s  %-8s %10s %12s %10s   (ns)\n", "queued", "mix", "yield", "park+wake", "charge");
  for (const mix kind : {mix::equal, mix::weights, mix::slices}) {
    for (const std::size_t size : {1U, 2U, 4U, 16U, 64U, 1'000U, 10'000U}) {
      crowd yielding(size, kind), parking(size, kind), charging(size, kind);
      const double yield = best_ns(rounds, [&](int n) { yielding.yields(n); });
      const double park = best_ns(rounds, [&](int n) { parking.parks_and_wakes(n); });
      const double charge = best_ns(rounds, [&](int n) { charging.charges(n); });
      const char* name = kind == mix::equal ? "equal" : kind == mix::weights ? "weights" : "slices";
      std::printf("%8zu  %-8s %10.1f %12.1f %10.1f\n", size, name, yield, park, charge);
    }
  }
}
