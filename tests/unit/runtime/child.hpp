// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace lagom::tests {

struct child_result {
  int status = 0;  // as waitpid gives it
  std::string output;  // what it wrote to stderr

  [[nodiscard]] bool exited_with(int code) const { return WIFEXITED(status) && WEXITSTATUS(status) == code; }
  [[nodiscard]] bool killed_by(int signal) const { return WIFSIGNALED(status) && WTERMSIG(status) == signal; }
};

// Runs body in a forked child with its stderr caught. The child ends with exit code 0 if the body returns.
template <class Body>
child_result run_in_child(Body body) {
  int ends[2] = {};
  if (::pipe(ends) != 0) {
    std::abort();
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    body();
    ::_exit(0);
  }
  ::close(ends[1]);
  child_result result;
  char buffer[1024];
  for (ssize_t got = 0; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
    result.output.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  ::waitpid(child, &result.status, 0);
  return result;
}

}  // namespace lagom::tests
