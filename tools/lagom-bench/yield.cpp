// SPDX-License-Identifier: BSL-1.0
#include <sched.h>

#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "fiber_team.hpp"
#include "limits.hpp"
#include "report.hpp"
#include "thread_team.hpp"
#include "turns.hpp"
#include "workload.hpp"

namespace lagom::bench {

namespace {

constexpr std::uint64_t loops_max = 1'000'000'000'000;
constexpr std::uint64_t loops_default = 2'000'000;
constexpr std::uint64_t fibers_default = 2;

class yield_workload : public workload {
 public:
  void add_options(CLI::App& command) override {
    add_number(command, {"-l,--loop", "yields of all fibers together (default 2000000)", 1, loops_max}, loops_);
  }

  void settle(run_options& options) override {
    if (options.fibers == 0) {
      options.fibers = fibers_default;
    }
    if (options.workers == 0) {
      options.workers = 1;  // what a switch costs shows only when all take turns on one CPU
    }
    if (options.fibers > loops_) {
      throw usage_error(fmt::format("--loop: {} yields are too few for {} fibers", loops_, options.fibers));
    }
    if (options.includes(backend::thread)) {
      require_threads(options.fibers);
    }
    if (options.includes(backend::fiber)) {
      require_memory(options.fibers * bytes_per_fiber);
    }
  }

  measurement run(backend which, const run_options& options) const override {
    const bool share_a_cpu = options.workers == 1 && options.fibers > 1;
    turns taken(options.fibers, (loops_ + options.fibers - 1) / options.fibers, options.seconds,
                share_a_cpu ? watch_handovers::yes : watch_handovers::no);
    measurement span{};
    if (which == backend::fiber) {
      span = run_fiber_team(options, options.fibers,
                            [&](std::size_t member) { taken.take(member, [] { this_fiber::yield(); }); });
    } else {
      confine_to_cpus(options.workers);
      span = run_thread_team(options.fibers, [&](std::size_t member) { taken.take(member, [] { ::sched_yield(); }); });
    }
    span.ops = taken.total();
    if (share_a_cpu) {
      span.handovers = taken.handovers();
      require_switches(which, *span.handovers);
    }
    return span;
  }

  nlohmann::json parameters(const run_options& options) const override {
    nlohmann::json out = {{"fibers", options.fibers}};
    if (options.seconds == 0) {
      out["loops"] = loops_;
    }
    return out;
  }

  void print(const summary& results) const override {
    fmt::print("# Running 'yield' benchmark:\n");
    fmt::print("# {:.0f} yields of {}\n\n", results.ops, plural_of(results.which));
    fmt::print("     Total time: {:.3f} [sec]\n\n", results.seconds.median);
    print_common(results, "yield");
    if (results.handovers) {
      constexpr double percent = 100;
      fmt::print("     {:.2f} % of the yields handed over to another\n", percent * *results.handovers);
    }
  }

  length meaning_of_seconds() const override { return length::of_run; }

 private:
  /// A yield that mostly returns to its caller would make the figure a lie. The kernel's own is only reported.
  static void require_switches(backend which, double handovers) {
    constexpr double least = 0.5;
    if (which == backend::fiber && handovers < least) {
      throw check_failed(fmt::format("only {:.3f} of the yields handed over to another fiber", handovers));
    }
  }

  std::uint64_t loops_ = loops_default;
};

}  // namespace

std::unique_ptr<workload> make_yield() { return std::make_unique<yield_workload>(); }

}  // namespace lagom::bench
