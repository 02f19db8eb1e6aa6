// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lagom::os {

// How many CPUs' worth of time this process may use: the smallest quota/period over its control group and all of
// that group's ancestors, cgroup v2 (cpu.max) and v1 (cpu.cfs_quota_us, cpu.cfs_period_us). nullopt: no limit.
// A file that is missing, says "max" or -1, or does not make sense is no limit. Reads files: at most once a second.
//
// root "" reads the system's /proc/self/cgroup and /sys/fs/cgroup. Otherwise, for tests, one of
//   <root>/proc/self/cgroup  and  <root>/sys/fs/cgroup/…      the same layout below root
//   <root>/cpu.max, <root>/cpu/cpu.cfs_quota_us, …            root stands for /sys/fs/cgroup itself; groups from the
//                                                             system's /proc/self/cgroup, as far as they exist below
// A group named in /proc/self/cgroup that is not visible below the mount (a container's view) is skipped; the
// mount's top directory always counts, since inside a container that is where its limit shows.
[[nodiscard]] std::optional<double> cpu_quota(std::string_view root = {});

// vm.max_map_count: how many mappings a process may have; nullopt if the system does not say.
[[nodiscard]] std::optional<std::uint64_t> max_map_count();

// Environment variable; nullopt if unset. Not while another thread changes the environment.
[[nodiscard]] std::optional<std::string> get_env(const char* name);

}  // namespace lagom::os
