// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine.hpp"
#include "observer.hpp"
#include "wait_histogram.hpp"

namespace lagom::sim {

inline constexpr std::size_t classes = 3;     // normal, batch, idle
inline constexpr std::size_t spendings = 6;
inline constexpr std::size_t journeys = 4;
inline constexpr std::size_t time_buckets = 200;  // of the timelines

struct worker_figures {
  std::array<wait_histogram, classes> wait{};  // in queues, each time
  std::array<wait_histogram, classes> wake{};  // the same, after wake-ups and starts only
  std::array<nanos, spendings> spent{};
  std::uint64_t switches = 0, displaced = 0, thefts = 0, searches = 0, wakes = 0;
  // Busy nanoseconds (of any class) per stretch of time.
  std::array<nanos, time_buckets> busy{};
};

// What all fibers of one line of the workload did.
struct fiber_figures {
  std::string name{};
  std::int64_t fibers = 0;
  nanos served = 0;
  std::int64_t loops = 0;
  wait_histogram wake{};      // from the moment a wait was to end until it ran
  wait_histogram response{};  // until the work that was due was done
  wait_histogram child_start{};
  std::int64_t children = 0;
};

// Counts what the report prints. From the end of the warm-up on.
class measures : public observer {
 public:
  measures(const workload& what, const crew& all);

  void stint(const fiber&, const worker&, nanos from, nanos to, departure) override;
  void began(const fiber&, const worker&, nanos at, nanos waited) override;
  void woke(const fiber&, nanos due, nanos ran) override;
  void responded(const fiber&, nanos due, nanos done) override;
  void child_began(const fiber& parent, nanos created, nanos began) override;
  void child_ended(const fiber& parent, const fiber& child, nanos at) override;
  void moved(const fiber&, unsigned from, unsigned to, journey) override;
  void worker_woken(const worker&, nanos at) override;
  void searched(const worker&, bool found) override;
  void spent(const worker&, spending, nanos from, nanos to) override;

  // Once, at the end.
  void finish(const engine& done);

  [[nodiscard]] const std::vector<worker_figures>& workers() const { return workers_; }
  [[nodiscard]] const std::vector<fiber_figures>& fibers() const { return fibers_; }
  [[nodiscard]] const std::array<std::array<std::uint64_t, topology::distance_classes>, journeys>& moves() const {
    return moves_;
  }
  [[nodiscard]] wait_histogram all_waits(scheduler::policy kind) const;
  [[nodiscard]] wait_histogram all_wakes(scheduler::policy kind) const;
  [[nodiscard]] std::array<nanos, spendings> all_spent() const;
  [[nodiscard]] std::uint64_t total(std::uint64_t worker_figures::*which) const;
  [[nodiscard]] nanos measured() const { return what_.duration - what_.warmup; }
  // Greatest relative error of a share among the fibers that were runnable all the time, against their weights, and how
  // many those are. Over all workers: what a fair machine would give each, at most one worker.
  struct share_error {
    double worst = 0;
    std::size_t fibers = 0;
    std::string who{};
  };
  [[nodiscard]] const share_error& shares() const { return shares_; }
  [[nodiscard]] nanos served(unsigned fiber) const { return fiber < served_.size() ? served_[fiber] : 0; }

 private:
  [[nodiscard]] bool counts(nanos at) const { return at >= what_.warmup; }
  fiber_figures& of(const fiber& f) { return fibers_[line_of(f)]; }
  [[nodiscard]] std::size_t line_of(const fiber& f) const;
  void judge_shares(const engine& done);

  const workload& what_;
  const crew& all_;
  std::vector<worker_figures> workers_;
  std::vector<fiber_figures> fibers_;
  std::vector<nanos> served_{};  // by fiber
  std::array<std::array<std::uint64_t, topology::distance_classes>, journeys> moves_{};
  share_error shares_{};
};

}  // namespace lagom::sim
