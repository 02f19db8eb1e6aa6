// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "fiber_team.hpp"
#include "limits.hpp"
#include "report.hpp"
#include "workload.hpp"

namespace lagom::bench {

namespace {

constexpr std::uint64_t loops_max = 10'000'000'000;
constexpr std::uint64_t loops_default = 100'000;
constexpr std::uint64_t batch_default = 1'000;

/// Spawns a batch, joins it, looks whether each one really ran, and so on. Handle is lagom::fiber or std::thread.
template <class Handle>
class batches {
 public:
  explicit batches(std::size_t size) : size_(size), marks_(size) { handles_.reserve(size); }

  void run_one(std::size_t count) {
    for (std::size_t place = 0; place < count; ++place) {
      handles_.emplace_back([mark = &marks_[place], value = place + 1] { *mark += value; });
    }
    for (auto& handle : handles_) {
      handle.join();
    }
    handles_.clear();
    done_ += count;
    expected_ += count * (count + 1) / 2;
  }

  /// `loops` in all, or as many as fit into `seconds`.
  std::uint64_t run(std::uint64_t loops, double seconds) {
    using clock = std::chrono::steady_clock;
    const auto end = clock::now() + std::chrono::duration<double>(seconds);
    while (seconds > 0 ? clock::now() < end : done_ < loops) {
      run_one(seconds > 0 ? size_ : static_cast<std::size_t>(std::min<std::uint64_t>(size_, loops - done_)));
    }
    if (std::accumulate(marks_.begin(), marks_.end(), std::uint64_t{0}) != expected_) {
      throw check_failed("not every spawned one ran once");
    }
    return done_;
  }

 private:
  std::size_t size_;
  std::vector<std::uint64_t> marks_;
  std::vector<Handle> handles_;
  std::uint64_t done_ = 0, expected_ = 0;
};

class spawn_workload : public workload {
 public:
  void add_options(CLI::App& command) override {
    add_number(command, {"-l,--loop", "fibers spawned in all (default 100000)", 1, loops_max}, loops_);
    add_number(command, {"-b,--batch", "fibers alive at once (default 1000); the same as --fibers", 1, batch_max},
               batch_);
  }

  void settle(run_options& options) override {
    if (batch_ != 0 && options.fibers != 0 && batch_ != options.fibers) {
      throw usage_error("--batch and --fibers mean the same here; give one of them");
    }
    options.fibers = std::max({batch_, options.fibers, batch_ + options.fibers == 0 ? batch_default : 0});
    if (options.includes(backend::thread)) {
      require_threads(std::min(options.fibers, loops_));
    }
    if (options.includes(backend::fiber)) {
      require_memory(std::min(options.fibers, loops_) * bytes_per_fiber);
    }
  }

  measurement run(backend which, const run_options& options) const override {
    return which == backend::fiber ? run_fibers(options) : run_threads(options);
  }

  nlohmann::json parameters(const run_options& options) const override {
    nlohmann::json out = {{"batch", options.fibers}};
    if (options.seconds == 0) {
      out["loops"] = loops_;
    }
    return out;
  }

  void print(const summary& results) const override {
    fmt::print("# Running 'spawn' benchmark:\n");
    fmt::print("# {:.0f} {} spawned and joined\n\n", results.ops, plural_of(results.which));
    fmt::print("     Total time: {:.3f} [sec]\n\n", results.seconds.median);
    print_common(results, "spawn and join");
  }

  length meaning_of_seconds() const override { return length::of_run; }

 private:
  static constexpr std::uint64_t batch_max = 4'000'000;

  measurement run_fibers(const run_options& options) const {
    runtime rt(runtime_options_for(options));
    std::uint64_t done = 0;
    measurement span = measure_in_fiber(rt, [&](const auto& start) {
      or_fail_run([&] {
        batches<fiber> work(options.fibers);
        start();
        done = work.run(loops_, options.seconds);
      });
    });
    span.ops = done;
    return span;
  }

  measurement run_threads(const run_options& options) const {
    confine_to_cpus(options.workers);
    measurement span{};
    or_fail_run([&] {
      batches<std::thread> work(options.fibers);
      const stopwatch watch;
      const std::uint64_t done = work.run(loops_, options.seconds);
      span = watch.read();
      span.ops = done;
      span.switches = span.os_switches;
    });
    return span;
  }

  std::uint64_t loops_ = loops_default;
  std::uint64_t batch_ = 0;
};

}  // namespace

std::unique_ptr<workload> make_spawn() { return std::make_unique<spawn_workload>(); }

}  // namespace lagom::bench
