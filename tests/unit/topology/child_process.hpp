// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <string>
#include <utility>

#include "topology/cpu_set.hpp"

// Affinity and environment belong to a process: what changes them is tried in one that nobody needs afterwards.
namespace lagom::topology {

// What `body` returned in a forked child, or "threw: <what>". Only while the test has one thread.
template <class Body>
std::string in_child(Body body) {
  int ends[2] = {-1, -1};
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    std::string text;
    try {
      text = body();
    } catch (const std::exception& error) {
      text = std::string("threw: ") + error.what();
    }
    const bool written = ::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  std::string text;
  char chunk[4096];
  for (ssize_t got = 0; (got = ::read(ends[0], chunk, sizeof chunk)) > 0;) text.append(chunk, static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? text : "the child died, status " + std::to_string(status);
}

inline void set_environment(std::initializer_list<std::pair<const char*, const char*>> variables) {
  for (const auto& [name, value] : variables) ::setenv(name, value, 1);
}

// Plain cpu_set_t: enough for the machines that run tests.
inline cpu_set kernel_mask() {
  cpu_set_t raw;
  CPU_ZERO(&raw);
  cpu_set mask;
  if (::sched_getaffinity(0, sizeof raw, &raw) != 0) return mask;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &raw)) mask.set(cpu);
  return mask;
}

inline bool set_kernel_mask(const cpu_set& mask) {
  cpu_set_t raw;
  CPU_ZERO(&raw);
  for (const auto cpu : mask) CPU_SET(cpu, &raw);
  return ::sched_setaffinity(0, sizeof raw, &raw) == 0;
}

}  // namespace lagom::topology
