// SPDX-License-Identifier: BSL-1.0
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <deque>
#include <fstream>
#include <latch>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>

#include "scenario_player.hpp"

namespace lagom::bench {

namespace {

using scenarios::nanos;

constexpr nanos second = 1'000'000'000;

// The C library has no wrapper for these calls, and its headers no such structure (glibc 2.36).
struct kernel_attributes {
  std::uint32_t size = sizeof(kernel_attributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0;  // a custom slice, 0 for the default
  std::uint64_t deadline = 0;
  std::uint64_t period = 0;
};

void set_attributes(pid_t thread, const scenarios::attributes& sched) {
  kernel_attributes wanted;
  wanted.policy = sched.policy == scenarios::policy::idle    ? SCHED_IDLE
                  : sched.policy == scenarios::policy::batch ? SCHED_BATCH
                                                             : SCHED_OTHER;
  wanted.nice = sched.nice;
  wanted.runtime = static_cast<std::uint64_t>(sched.slice);
  if (::syscall(SYS_sched_setattr, thread, &wanted, 0) != 0) {
    throw std::system_error(errno, std::generic_category(), "sched_setattr");
  }
}

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, nanos until) {
  const timespec t{until / second, until % second};
  ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, expected, &t, nullptr, FUTEX_BITSET_MATCH_ANY);
}

/// What scenario_player.hpp needs to know of OS threads.
class thread_machine {
 public:
  class wait {
   public:
    bool wait_until(nanos when) {
      for (;;) {
        if (tokens_.exchange(0, std::memory_order_acquire) != 0) return true;  // pairs with post()
        if (monotonic_now() >= when) return false;
        futex_wait(tokens_, 0, when);
      }
    }
    void post() {
      tokens_.store(1, std::memory_order_release);  // pairs with wait_until()
      ::syscall(SYS_futex, &tokens_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
    }

   private:
    std::atomic<std::uint32_t> tokens_{0};
  };
  using task = std::thread;

  thread_machine(int cpu, int home_cpu) : cpu_(cpu), home_cpu_(home_cpu) {}

  unsigned cpu() const { return static_cast<unsigned>(cpu_ != scenarios::any_cpu ? cpu_ : ::sched_getcpu()); }
  void look(nanos) {}
  void sleep_until(nanos when) { sleep_thread_until(when); }
  void yield() { ::sched_yield(); }
  /// Makes home_cpu the previous CPU of the next wake-up, which may still choose any.
  void go_home() {
    if (home_cpu_ != cpu_) {
      bind_to_cpu(home_cpu_);
      bind_to_cpu(cpu_);
    }
  }
  nanos cpu_time() const {
    timespec t{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * second + t.tv_nsec;
  }
  thread_machine for_child() const { return {cpu_, cpu_}; }
  template <class F>
  std::thread start(F&& body) const {
    return std::thread(std::forward<F>(body));  // binding and policy are inherited
  }

 private:
  int cpu_;
  int home_cpu_;
};

class thread_stage : public stage {
 public:
  explicit thread_stage(scenarios::run_record& run)
      : run_(run), slots_(CPU_SETSIZE), ready_(static_cast<std::ptrdiff_t>(run.threads.size())), ids_(run.threads.size()),
        finished_(static_cast<std::ptrdiff_t>(run.threads.size())) {
    for (std::size_t i = 0; i < run.threads.size(); ++i) {
      tokens_.emplace_back();
    }
    for (std::size_t i = 0; i < run.threads.size(); ++i) {
      threads_.emplace_back([this, i] { live(i); });
    }
    ready_.wait();
    if (has_failed_.load(std::memory_order_relaxed)) {  // published by the latch
      end_threads();
      throw std::runtime_error("the kernel refuses the threads' policy, slice or CPU");
    }
  }

  void release() override { released_.count_down(); }

  scenarios::counters counters_of(std::size_t thread) override {
    const std::string folder = "/proc/self/task/" + std::to_string(ids_[thread]);
    scenarios::counters out{};
    nanos ran = 0;
    std::ifstream(folder + "/schedstat") >> ran >> out.run_delay >> out.runs;
    out.cpu = cpu_time_of(thread);
    std::ifstream status(folder + "/status");
    for (std::string key; status >> key;) {
      if (key == "voluntary_ctxt_switches:") status >> out.voluntary;
      if (key == "nonvoluntary_ctxt_switches:") status >> out.involuntary;
    }
    return out;
  }

  nanos slice_of(std::size_t thread) override {
    kernel_attributes seen;
    const long failed = ::syscall(SYS_sched_getattr, ids_[thread], &seen, sizeof seen, 0);
    return failed != 0 ? 0 : static_cast<nanos>(seen.runtime);
  }

  void change(std::size_t thread, const scenarios::attributes& sched) override { set_attributes(ids_[thread], sched); }

  void end() override {
    finished_.wait();
    end_threads();
  }

 private:
  void end_threads() {
    if (has_failed_.load(std::memory_order_relaxed)) {  // published by the latch
      released_.count_down();
    }
    ended_.count_down();
    for (auto& each : threads_) {
      each.join();
    }
  }

  nanos cpu_time_of(std::size_t thread) {
    clockid_t clock{};
    timespec t{};
    if (::pthread_getcpuclockid(threads_[thread].native_handle(), &clock) != 0 || ::clock_gettime(clock, &t) != 0) {
      return 0;
    }
    return t.tv_sec * second + t.tv_nsec;
  }

  bool prepare(std::size_t index) {
    try {
      ::prctl(PR_SET_TIMERSLACK, 1UL);
      bind_to_cpu(run_.what.threads[index].cpu);
      set_attributes(0, run_.threads[index].sched);
      return true;
    } catch (const std::system_error&) {
      return false;
    }
  }

  void live(std::size_t index) {
    const auto& spec = run_.what.threads[index];
    ids_[index] = static_cast<pid_t>(::syscall(SYS_gettid));
    if (!prepare(index)) {
      has_failed_.store(true, std::memory_order_relaxed);  // published by the latch
    }
    ready_.count_down();
    released_.wait();
    if (has_failed_.load(std::memory_order_relaxed)) return;  // published by the latches
    thread_machine machine(spec.cpu, spec.home_cpu);
    player<thread_machine>(machine, {spec, run_.measured, run_.threads[index].log, slots_, static_cast<std::uint32_t>(index) + 1,
                                     &tokens_[index], &tokens_[spec.pattern.peer]})
        .play();
    finished_.count_down();
    ended_.wait();  // the control thread reads the counters
  }

  scenarios::run_record& run_;
  cpu_slots slots_;
  std::latch ready_;
  std::latch released_{1};
  std::vector<pid_t> ids_;
  std::latch finished_;
  std::latch ended_{1};
  std::atomic<bool> has_failed_{false};
  std::deque<token<thread_machine::wait>> tokens_{};
  std::vector<std::thread> threads_{};
};

}  // namespace

std::unique_ptr<stage> set_thread_stage(scenarios::run_record& run, const scenario_options&) {
  return std::make_unique<thread_stage>(run);
}

}  // namespace lagom::bench
