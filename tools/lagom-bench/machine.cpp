// SPDX-License-Identifier: BSL-1.0
#include "machine.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <system_error>

namespace lagom::bench {

namespace {

/// A dynamic set: a fixed cpu_set_t ends at 1,024 CPUs.
struct affinity_mask {
  static constexpr int bits = 16'384;
  static constexpr std::size_t bytes = CPU_ALLOC_SIZE(bits);
  struct deleter {
    void operator()(cpu_set_t* freed) const noexcept { CPU_FREE(freed); }
  };
  std::unique_ptr<cpu_set_t, deleter> set{CPU_ALLOC(bits)};

  affinity_mask() { CPU_ZERO_S(bytes, set.get()); }
};

affinity_mask current_affinity() {
  affinity_mask mask;
  if (::sched_getaffinity(0, affinity_mask::bytes, mask.set.get()) != 0) {
    throw std::system_error(errno, std::generic_category(), "sched_getaffinity");
  }
  return mask;
}

/// The number a kernel file holds; no limit when there is none, or it reads "max".
std::uint64_t limit_from(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : std::numeric_limits<std::uint64_t>::max();
}

struct resource_use {
  double cpu_seconds;
  std::uint64_t os_switches;
};

resource_use used_so_far() {
  constexpr double seconds_per_us = 1e-6;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * seconds_per_us;
  };
  return {seconds(usage.ru_utime) + seconds(usage.ru_stime),
          static_cast<std::uint64_t>(usage.ru_nvcsw) + static_cast<std::uint64_t>(usage.ru_nivcsw)};
}

rlimit read_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    throw std::system_error(errno, std::generic_category(), "getrlimit");
  }
  return limit;
}

}  // namespace

std::uint64_t allowed_cpus() {
  return static_cast<std::uint64_t>(CPU_COUNT_S(affinity_mask::bytes, current_affinity().set.get()));
}

void confine_to_cpus(std::uint64_t count) {
  const auto allowed = current_affinity();
  if (count == 0 || count >= allowed_cpus()) {
    return;
  }
  affinity_mask wanted;
  std::uint64_t taken = 0;
  for (int cpu = 0; cpu < affinity_mask::bits && taken < count; ++cpu) {
    if (CPU_ISSET_S(cpu, affinity_mask::bytes, allowed.set.get())) {
      CPU_SET_S(cpu, affinity_mask::bytes, wanted.set.get());
      ++taken;
    }
  }
  if (::sched_setaffinity(0, affinity_mask::bytes, wanted.set.get()) != 0) {
    throw std::system_error(errno, std::generic_category(), "sched_setaffinity");
  }
}

std::uint64_t thread_limit() {
  rlimit processes{};
  ::getrlimit(RLIMIT_NPROC, &processes);
  // A thread's stack takes two mappings: the stack and its guard.
  constexpr std::uint64_t mappings_per_thread = 2;
  return std::min({static_cast<std::uint64_t>(processes.rlim_cur), limit_from("/proc/sys/kernel/threads-max"),
                   limit_from("/proc/sys/kernel/pid_max"), limit_from("/sys/fs/cgroup/pids.max"),
                   limit_from("/proc/sys/vm/max_map_count") / mappings_per_thread});
}

std::uint64_t descriptor_limit() { return read_descriptor_limit().rlim_max; }

void raise_descriptor_limit() {
  rlimit limit = read_descriptor_limit();
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    throw std::system_error(errno, std::generic_category(), "setrlimit");
  }
}

std::uint64_t available_memory() {
  constexpr std::uint64_t bytes_per_kb = 1024;
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::uint64_t kb = 0;
  while (file >> key >> kb) {
    if (key == "MemAvailable:") {
      return kb * bytes_per_kb;
    }
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::numeric_limits<std::uint64_t>::max();
}

stopwatch::stopwatch() {
  const auto used = used_so_far();
  cpu_seconds_ = used.cpu_seconds;
  os_switches_ = used.os_switches;
  start_ = std::chrono::steady_clock::now();
}

measurement stopwatch::read() const {
  const auto end = std::chrono::steady_clock::now();
  const auto used = used_so_far();
  measurement span{};
  span.seconds = std::chrono::duration<double>(end - start_).count();
  span.cpu_seconds = used.cpu_seconds - cpu_seconds_;
  span.os_switches = used.os_switches - os_switches_;
  return span;
}

}  // namespace lagom::bench
