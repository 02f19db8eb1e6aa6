// SPDX-License-Identifier: BSL-1.0
#include "pipe.hpp"

#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report.hpp"
#include "workload.hpp"

namespace lagom::bench {

namespace {

constexpr std::uint64_t loops_max = 100'000'000'000;

class pipe_workload : public workload {
 public:
  void add_options(CLI::App& command) override {
    add_number(command, {"-l,--loop", "round trips (default 1000000)", 1, loops_max}, what_.loops);
    add_switch(command, "-T,--threaded", what_.threaded,
               "accepted as in perf; the OS form always uses threads, not processes");
    add_switch(command, "--in-memory", what_.in_memory, "thread form: one-slot queues with a mutex and condition variables");
  }

  void settle(run_options& options) override {
    constexpr std::uint64_t sides = 2;
    if (options.fibers != 0 && options.fibers != sides) {
      throw usage_error("--fibers: pipe has two sides; leave the option out, or say 2");
    }
  }

  measurement run(backend which, const run_options& options) const override {
    return which == backend::fiber ? run_pipe_fibers(what_, options) : run_pipe_threads(what_, options);
  }

  nlohmann::json parameters(const run_options& options) const override {
    nlohmann::json out = {{"loops", what_.loops}};
    if (options.includes(backend::thread)) {
      out["thread_transport"] = what_.in_memory ? "in_memory" : "pipe";
    }
    return out;
  }

  void print(const summary& results) const override {
    constexpr double ns_per_us = 1e3;
    fmt::print("# Running 'sched/pipe' benchmark:\n");
    fmt::print("# Executed {} pipe operations between two {}\n\n", what_.loops, plural_of(results.which));
    fmt::print("     Total time: {:.3f} [sec]\n\n", results.seconds.median);
    fmt::print(" {:14.6f} usecs/op\n", results.ns_per_op.median / ns_per_us);
    fmt::print(" {:14.0f} ops/sec\n\n", results.ops / results.seconds.median);
    print_common(results, "round trip");
  }

  length meaning_of_seconds() const override { return length::of_all_runs; }

 private:
  pipe_options what_{};
};

}  // namespace

std::unique_ptr<workload> make_pipe() { return std::make_unique<pipe_workload>(); }

}  // namespace lagom::bench
