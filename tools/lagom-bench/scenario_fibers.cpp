// SPDX-License-Identifier: BSL-1.0
#include <chrono>
#include <deque>

#include <lagom/lagom.hpp>

#include "fiber_team.hpp"
#include "scenario_player.hpp"
#include "scheduler/features.hpp"

namespace lagom::bench {

namespace {

using scenarios::nanos;

std::chrono::steady_clock::time_point at(nanos when) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(when));
}

policy policy_for(scenarios::policy which) {
  return which == scenarios::policy::idle    ? policy::idle
         : which == scenarios::policy::batch ? policy::batch
                                             : policy::normal;
}

attributes attributes_for(const scenarios::thread_spec& spec, const scenarios::attributes& sched, bool is_single) {
  attributes out{};
  out.name = spec.name;
  out.policy = policy_for(sched.policy);
  out.nice = sched.nice;
  out.slice = std::chrono::nanoseconds(sched.slice);
  if (!is_single && spec.cpu != scenarios::any_cpu) {
    out.affinity.set(static_cast<unsigned>(spec.cpu));
  }
  return out;
}

/// What scenario_player.hpp needs to know of fibers.
class fiber_machine {
 public:
  class wait {
   public:
    bool wait_until(nanos when) { return tokens_.try_acquire_until(at(when)); }
    void post() { tokens_.release(); }

   private:
    counting_semaphore<> tokens_{0};
  };
  using task = fiber;

  fiber_machine(const attributes& own, nanos quantum) : own_(own), quantum_(quantum) {}

  unsigned cpu() const { return this_fiber::worker_index(); }
  void look(nanos now) {
    if (now >= next_point_) {
      this_fiber::checkpoint();
      next_point_ = now + quantum_;
    }
  }
  void sleep_until(nanos when) { this_fiber::sleep_until(at(when)); }
  void yield() { this_fiber::yield(); }
  void go_home() {}
  nanos cpu_time() const { return this_fiber::stats().cpu_time.count(); }
  fiber_machine for_child() const { return {own_, quantum_}; }
  template <class F>
  fiber start(F&& body) const {
    return fiber(own_, std::forward<F>(body));
  }

 private:
  attributes own_;
  nanos quantum_;
  nanos next_point_ = 0;
};

class fiber_stage : public stage {
 public:
  fiber_stage(scenarios::run_record& run, const scenario_options& options)
      : run_(run), slots_(workers_for(run, options)), default_slice_(slice_in_force(options)), rt_(options_for(run, options)) {
    const nanos quantum = static_cast<nanos>(options.quantum_us) * 1'000;
    for (auto& thread : run.threads) {
      tokens_.emplace_back();
      thread.log.subtracts_foreign = false;  // the scheduler of fibers sees only its worker's time
    }
    for (std::size_t i = 0; i < run.threads.size(); ++i) {
      const attributes sched = attributes_for(run.what.threads[i], run.threads[i].sched, rt_.workers() == 1);
      fibers_.push_back(rt_.spawn(sched, [this, i, sched, quantum] { live(i, fiber_machine(sched, quantum)); }));
    }
  }

  void release() override { released_.set(); }

  scenarios::counters counters_of(std::size_t thread) override {
    const fiber_stats s = fibers_[thread].stats();
    const auto voluntary = static_cast<std::int64_t>(s.switches_voluntary);
    const auto involuntary = static_cast<std::int64_t>(s.switches_involuntary);
    return {s.cpu_time.count(), s.wait_time.count(), voluntary + involuntary, voluntary, involuntary};
  }

  nanos slice_of(std::size_t thread) override {
    const nanos own = fibers_[thread].get_attributes().slice.count();
    return own != 0 ? own : default_slice_;
  }

  void change(std::size_t thread, const scenarios::attributes& sched) override {
    attributes changed = fibers_[thread].get_attributes();
    changed.policy = policy_for(sched.policy);
    changed.nice = sched.nice;
    changed.slice = std::chrono::nanoseconds(sched.slice);
    fibers_[thread].set_attributes(changed);
  }

  void end() override {
    ended_.set();
    for (auto& each : fibers_) {
      each.join();
    }
  }

 private:
  static unsigned workers_for(const scenarios::run_record& run, const scenario_options& options) {
    return options.workers != 0 ? static_cast<unsigned>(options.workers) : run.what.workers();
  }

  static nanos slice_in_force(const scenario_options& options) {
    const nanos own = static_cast<nanos>(options.slice_us) * 1'000;
    return own != 0 ? own : scheduler::features::parse(options.features).value.base_slice;
  }

  static runtime_options options_for(const scenarios::run_record& run, const scenario_options& options) {
    run_options common{};
    common.workers = workers_for(run, options);
    common.slice_us = options.slice_us;
    common.features = options.features;
    common.pin = common.workers > 1;
    runtime_options out = runtime_options_for(common);
    if (common.workers == 1) {
      // Only the worker: the runtime's monitor may run elsewhere.
      out.on_worker_start = [cpu = run.what.cpu](unsigned) { bind_to_cpu(cpu); };
    }
    return out;
  }

  void live(std::size_t index, fiber_machine machine) {
    released_.wait();
    const auto& spec = run_.what.threads[index];
    player<fiber_machine>(machine, {spec, run_.measured, run_.threads[index].log, slots_, static_cast<std::uint32_t>(index) + 1,
                                    &tokens_[index], &tokens_[spec.pattern.peer]})
        .play();
    ended_.wait();
  }

  scenarios::run_record& run_;
  cpu_slots slots_;
  event released_{};
  event ended_{};
  std::deque<token<fiber_machine::wait>> tokens_{};
  nanos default_slice_;
  runtime rt_;
  std::vector<fiber> fibers_{};
};

}  // namespace

std::unique_ptr<stage> set_fiber_stage(scenarios::run_record& run, const scenario_options& options) {
  return std::make_unique<fiber_stage>(run, options);
}

}  // namespace lagom::bench
