// SPDX-License-Identifier: BSL-1.0
#include "messaging.hpp"

#include <memory>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "limits.hpp"
#include "report.hpp"
#include "workload.hpp"

namespace lagom::bench {

namespace {

constexpr std::uint64_t groups_max = 25'000;  // a million fibers
constexpr std::uint64_t loops_max = 1'000'000'000;
constexpr std::uint64_t members_per_group = messaging_options::senders + messaging_options::receivers;

class messaging : public workload {
 public:
  void add_options(CLI::App& command) override {
    add_number(command, {"-g,--group", "number of groups (default 10)", 1, groups_max}, what_.groups);
    add_number(command, {"-l,--nr_loops", "messages of each sender to each receiver (default 100)", 1, loops_max},
               what_.loops);
    add_switch(command, "-t,--thread", what_.threads,
               "accepted as in perf; the OS form always uses threads, not processes");
    add_switch(command, "-p,--pipe", what_.use_pipe, "thread form: pipes instead of socket pairs");
    add_switch(command, "--in-memory", what_.in_memory, "thread form: a queue with a mutex and condition variables",
               "--pipe");
  }

  void settle(run_options& options) override {
    if (options.fibers != 0) {
      throw usage_error(fmt::format("--fibers: messaging runs {} fibers per group; say how many groups with --group",
                                    members_per_group));
    }
    if (options.includes(backend::thread)) {
      require_threads(what_.members());
      require_descriptors(what_.in_memory ? 0 : descriptors());
    }
    if (options.includes(backend::fiber)) {
      require_memory(what_.members() * bytes_per_fiber + inbox_bytes());
    }
  }

  measurement run(backend which, const run_options& options) const override {
    return which == backend::fiber ? run_messaging_fibers(what_, options) : run_messaging_threads(what_, options);
  }

  nlohmann::json parameters(const run_options& options) const override {
    nlohmann::json out = {{"groups", what_.groups}, {"loops", what_.loops}, {"messages", what_.messages()}};
    if (options.includes(backend::thread)) {
      out["thread_transport"] = what_.in_memory ? "in_memory" : what_.use_pipe ? "pipe" : "socketpair";
    }
    return out;
  }

  void print(const summary& results) const override {
    const auto who = plural_of(results.which);
    fmt::print("# Running 'sched/messaging' benchmark:\n");
    fmt::print("# {} sender and receiver {} per group\n", messaging_options::senders, who);
    fmt::print("# {} groups == {} {} run\n\n", what_.groups, what_.members(), who);
    fmt::print("     Total time: {:.3f} [sec]\n\n", results.seconds.median);
    print_common(results, "message");
  }

  length meaning_of_seconds() const override { return length::of_all_runs; }

 private:
  std::uint64_t descriptors() const noexcept { return what_.groups * messaging_options::receivers * 2; }
  std::uint64_t inbox_bytes() const noexcept {
    return what_.groups * messaging_options::receivers * messaging_options::channel_capacity * sizeof(message);
  }

  messaging_options what_{};
};

}  // namespace

std::unique_ptr<workload> make_messaging() { return std::make_unique<messaging>(); }

}  // namespace lagom::bench
