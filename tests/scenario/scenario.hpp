// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/fixture.hpp"

// Words the scenarios share: burner, rude, share, service gap.
//
// Each runs in three lengths: LAGOM_TEST_SHORT (sanitizers: counts / 10, limits of time x 10), default (some seconds), and
// LAGOM_TEST_LONG (suite "slow": as long as the promise says). Limits of time are percentiles.
namespace lagom::tests {

/// A count that is `whole` in the long form.
inline long count_of(long usual, long whole) { return is_long() ? whole : rounds(usual); }

/// Computes for d by the clock, without any call of the runtime.
inline void compute(std::chrono::nanoseconds d) {
  for (const auto until = clock::now() + d; clock::now() < until;) {
  }
}

/// Default slice 3 ms, as the scenarios say.
inline runtime_options scenario_options(unsigned workers) {
  runtime_options options;
  options.workers = workers;
  options.slice = 3ms;
  return options;
}

/// The value below which `percent` of the samples lie. Sorts.
inline double percentile(std::vector<double>& samples, double percent) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  const auto last = static_cast<double>(samples.size() - 1);
  return samples[static_cast<std::size_t>(std::ceil(percent / 100 * last))];
}

inline double milliseconds(std::chrono::nanoseconds d) { return std::chrono::duration<double, std::milli>(d).count(); }

/// One fiber whose CPU time is measured.
struct contestant {
  std::string name;
  fiber handle;
  std::vector<double> gaps_ms{};        // between two of its computations, on one worker; written by itself
  std::chrono::nanoseconds before{0};   // CPU time when the window opened
  double share = 0;                     // of the CPU time of all contestants, in percent
  double seconds = 0;
};

/// Fibers that compete until the contest is over. A stop ends their sleeps, quietly.
class contest {
 public:
  explicit contest(runtime& rt) : runtime_(rt) {}
  contest(const contest&) = delete;
  contest& operator=(const contest&) = delete;
  ~contest() { finish(); }

  bool is_over() const { return over_.load(std::memory_order_relaxed); }  // asked again and again

  /// body(contestant&) runs as a fiber; it returns when is_over().
  template <class Body>
  contestant& start(attributes a, Body body) {
    all_.push_back(std::make_unique<contestant>());
    contestant& c = *all_.back();
    c.name = a.name;
    c.handle = runtime_.spawn(a, [&c, body = std::move(body)]() mutable {
      try {
        body(c);
      } catch (const std::system_error& e) {
        if (e.code() != errc::stopped) throw;
      }
    });
    return c;
  }

  /// "compute 20 us, checkpoint", without end.
  contestant& burner(attributes a = {}) {
    return start(std::move(a), [this](contestant& c) { burn(c); });
  }
  /// Computes `work`, sleeps `rest`, without end. The work has checkpoints if it is polite.
  contestant& worker(attributes a, std::chrono::nanoseconds work, std::chrono::nanoseconds rest) {
    return start(std::move(a), [=, this](contestant&) {
      while (!is_over()) {
        burn_for(work);
        this_fiber::sleep_for(rest);
      }
    });
  }

  void burn(contestant& c) {
    auto ended = clock::now();
    auto taken = taken_from(0);
    while (!is_over()) {
      const auto gap = clock::now() - ended - (taken_from(0) - taken);
      if (gap > 100us) c.gaps_ms.push_back(milliseconds(gap));
      work(20us);
      ended = clock::now();
      taken = taken_from(0);
      this_fiber::checkpoint();
    }
  }
  /// Computes for d of its own time: what others use between its checkpoints does not count.
  void burn_for(std::chrono::nanoseconds d) {
    for (std::chrono::nanoseconds left = d; left > 0ns && !is_over(); left -= 20us) {
      work(std::min<std::chrono::nanoseconds>(left, 20us));
      this_fiber::checkpoint();
    }
  }
  /// compute(), and notes what took longer: for that time the system ran somebody else on the worker's CPU. Gaps and
  /// delays are the scheduler's without it.
  void work(std::chrono::nanoseconds d) {
    const auto begun = clock::now();
    compute(d);
    const auto extra = clock::now() - begun - d;
    if (extra <= 50us) return;
    taken_[this_fiber::worker_index() % taken_.size()] += extra.count();
    longest_taken_ = std::max(longest_taken_.load(), extra.count());  // near enough if two come at once
  }
  /// How long the system ran others on a worker's CPU so far, as far as its fibers have seen.
  std::chrono::nanoseconds taken_from(unsigned worker) const {
    return std::chrono::nanoseconds(taken_[worker % taken_.size()].load(std::memory_order_relaxed));  // a sum that only grows
  }

  /// The longest of these stretches, in ms. Whoever had the turn is charged for it, so turns are that much longer, and so
  /// are the waits that follow. Zero on a quiet machine.
  double longest_taken_ms() const { return static_cast<double>(longest_taken_.load()) / 1e6; }

  void open_window() {
    for (const auto& c : all_) c->before = c->handle.stats().cpu_time;
  }
  void close_window() {
    double sum = 0;
    for (const auto& c : all_) {
      c->seconds = std::chrono::duration<double>(c->handle.stats().cpu_time - c->before).count();
      sum += c->seconds;
    }
    for (const auto& c : all_) c->share = sum > 0 ? 100 * c->seconds / sum : 0;
  }
  /// Opens a window now, closes it d later; from a plain thread.
  void measure(std::chrono::nanoseconds d) {
    open_window();
    std::this_thread::sleep_for(d);
    close_window();
  }

  void finish() {
    over_ = true;
    for (const auto& c : all_) {
      if (!c->handle.joinable()) continue;
      c->handle.request_stop();
      c->handle.join();
    }
  }

 private:
  runtime& runtime_;
  std::atomic<bool> over_{false};
  std::array<std::atomic<std::int64_t>, 8> taken_{};
  std::atomic<std::int64_t> longest_taken_{0};
  std::vector<std::unique_ptr<contestant>> all_;
};

inline attributes of_nice(int n, std::string name = {}) {
  attributes a;
  a.name = std::move(name);
  a.nice = n;
  return a;
}

}  // namespace lagom::tests
