// SPDX-License-Identifier: BSL-1.0
#include "scenario_stage.hpp"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <functional>
#include <string>
#include <system_error>

namespace lagom::bench {

using scenarios::nanos;

namespace {

constexpr nanos second = 1'000'000'000;

cpu_set_t process_affinity() {
  static const cpu_set_t at_start = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (::sched_getaffinity(0, sizeof set, &set) != 0) {
      throw std::system_error(errno, std::generic_category(), "sched_getaffinity");
    }
    return set;
  }();
  return at_start;
}

/// The hypervisor's part, of all CPUs.
nanos stolen_time() {
  std::ifstream file("/proc/stat");
  std::string name;
  nanos field[8] = {};
  file >> name;
  for (auto& each : field) {
    file >> each;
  }
  return field[7] * (second / ::sysconf(_SC_CLK_TCK));
}

/// What the thread that controls a run does, in order of time.
class timeline {
 public:
  timeline(scenarios::run_record& run, stage& on) : run_(run), on_(on) {
    add(run.what.warmup, [this] { begin(); });
    for (const nanos at : run.what.phases) {
      add(at, [this] { mark_phase(); });
    }
    for (const auto& change : run.what.events) {
      add(change.at, [this, &change] { apply(change); });
    }
    add(run.what.duration, [this] { end(); });
    std::stable_sort(steps_.begin(), steps_.end(), [](const step& a, const step& b) { return a.at < b.at; });
  }

  void follow() {
    for (const auto& each : steps_) {
      sleep_thread_until(run_.measured.origin + each.at);
      each.what();
    }
  }

 private:
  struct step {
    nanos at;
    std::function<void()> what;
  };

  void add(nanos at, std::function<void()> what) { steps_.push_back({at, std::move(what)}); }

  void begin() {
    stolen_before_ = stolen_time();
    for (std::size_t i = 0; i < run_.threads.size(); ++i) {
      run_.threads[i].at_begin = on_.counters_of(i);
      run_.threads[i].slice_seen = on_.slice_of(i);
    }
  }

  void mark_phase() {
    for (std::size_t i = 0; i < run_.threads.size(); ++i) {
      run_.threads[i].phase_cpu.push_back(on_.counters_of(i).cpu);
    }
  }

  void apply(const scenarios::event& change) {
    auto& thread = run_.threads[change.thread];
    thread.sched = change.applied_to(thread.sched);
    on_.change(change.thread, thread.sched);
  }

  void end() {
    for (std::size_t i = 0; i < run_.threads.size(); ++i) {
      run_.threads[i].at_end = on_.counters_of(i);
    }
    run_.stolen = stolen_time() - stolen_before_;
  }

  scenarios::run_record& run_;
  stage& on_;
  std::vector<step> steps_{};
  nanos stolen_before_ = 0;
};

/// Keeps to another CPU than the scenario's and, where that is allowed, ahead of ordinary load there.
void become_control(int busy_cpu) {
  const cpu_set_t allowed = process_affinity();
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (cpu != busy_cpu && CPU_ISSET(cpu, &allowed)) {
      bind_to_cpu(cpu);
      break;
    }
  }
  sched_param parameter{};
  parameter.sched_priority = 1;
  static_cast<void>(::sched_setscheduler(0, SCHED_FIFO, &parameter));  // an ordinary user may not: then without
}

double foreign_share(const scenarios::run_record& run) {
  nanos foreign = 0;
  for (const auto& thread : run.threads) {
    foreign += thread.log.foreign;
  }
  return static_cast<double>(foreign) / static_cast<double>(run.measured.end - run.measured.begin);
}

}  // namespace

nanos monotonic_now() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * second + t.tv_nsec;
}

void sleep_thread_until(nanos when) {
  const timespec t{when / second, when % second};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) == EINTR) {
  }
}

bool may_run_on(int cpu) {
  const cpu_set_t allowed = process_affinity();
  return CPU_ISSET(static_cast<unsigned>(cpu), &allowed);
}

void bind_to_cpu(int cpu) {
  cpu_set_t set = process_affinity();
  if (cpu != scenarios::any_cpu) {
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(cpu), &set);
  }
  if (::sched_setaffinity(0, sizeof set, &set) != 0) {
    throw std::system_error(errno, std::generic_category(), "binding to CPU " + std::to_string(cpu));
  }
}

void play(scenarios::run_record& run, backend which, const scenario_options& options) {
  process_affinity();  // as it is before anybody binds anything
  const auto on = which == backend::fiber ? set_fiber_stage(run, options) : set_thread_stage(run, options);
  become_control(run.what.cpu);
  constexpr nanos head_start = 5'000'000;
  run.start(monotonic_now() + head_start);
  on->release();
  timeline(run, *on).follow();
  on->end();
  run.foreign_share = foreign_share(run);
}

}  // namespace lagom::bench
