// SPDX-License-Identifier: BSL-1.0
#include "repetition.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "descriptor.hpp"

namespace lagom::bench {

namespace {

using clock = std::chrono::steady_clock;

/// Where this process, if it is a child, reports to. Set once, before the child has a second thread.
int report_descriptor = -1;

double seconds_since(clock::time_point start) { return std::chrono::duration<double>(clock::now() - start).count(); }

nlohmann::json to_json(const measurement& m) {
  nlohmann::json out = {{"seconds", m.seconds},
                        {"cpu_seconds", m.cpu_seconds},
                        {"ops", m.ops},
                        {"switches", m.switches},
                        {"os_switches", m.os_switches}};
  if (m.latency) {
    out["latency"] = {m.latency->p50_us, m.latency->p99_us, m.latency->p999_us, m.latency->max_us};
  }
  if (m.handovers) {
    out["handovers"] = *m.handovers;
  }
  return out;
}

measurement from_json(const nlohmann::json& in) {
  measurement m{};
  m.seconds = in.at("seconds");
  m.cpu_seconds = in.at("cpu_seconds");
  m.ops = in.at("ops");
  m.switches = in.at("switches");
  m.os_switches = in.at("os_switches");
  if (const auto latency = in.find("latency"); latency != in.end()) {
    m.latency = latencies{latency->at(0), latency->at(1), latency->at(2), latency->at(3)};
  }
  if (const auto handovers = in.find("handovers"); handovers != in.end()) {
    m.handovers = handovers->get<double>();
  }
  return m;
}

void report(std::string_view text) noexcept {
  while (!text.empty()) {
    const auto written = ::write(report_descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      return;  // the parent is gone: nobody is left to be told
    }
    text.remove_prefix(written > 0 ? static_cast<std::size_t>(written) : 0);
  }
}

[[noreturn]] void be_child(const std::function<measurement()>& body, int descriptor, pid_t parent) {
  // A benchmark must not go on burning CPUs when the parent was killed.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) {
    std::_Exit(EXIT_FAILURE);
  }
  report_descriptor = descriptor;
  or_fail_run([&body] {
    const measurement result = body();
    if (result.ops == 0) {
      throw check_failed("nothing was done");
    }
    report(to_json(result).dump());
  });
  // Not _Exit: leak checkers and coverage want their say.
  std::exit(EXIT_SUCCESS);
}

/// Everything the child writes, until it closes its end or its time is up.
std::string listen(int descriptor, pid_t child, double timeout, const heartbeat& beat) {
  constexpr int beat_ms = 500;
  const auto start = clock::now();
  std::string text;
  std::array<char, 4096> part;
  bool is_killed = false;
  for (;;) {
    pollfd ready{descriptor, POLLIN, 0};
    const int count = ::poll(&ready, 1, beat_ms);
    if (count == 0 || (count < 0 && errno == EINTR)) {
      beat(seconds_since(start));
    } else {
      const auto length = ::read(descriptor, part.data(), part.size());
      if (length == 0) {
        return text;
      }
      text.append(part.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
    }
    if (timeout > 0 && !is_killed && seconds_since(start) > timeout) {
      ::kill(child, SIGKILL);
      is_killed = true;
      text = nlohmann::json{{"failure", fmt::format("not done after {} s", timeout)}}.dump();
    }
  }
}

repetition judge(const std::string& text, int status, const rusage& usage) {
  const auto said = nlohmann::json::parse(text, nullptr, false);
  if (said.is_object() && said.contains("failure")) {
    return {std::nullopt, said["failure"].get<std::string>()};
  }
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return {std::nullopt, fmt::format("crashed with signal {} ({})", signal, ::strsignal(signal))};
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS || !said.is_object()) {
    return {std::nullopt, fmt::format("ended with status {} and no result", WEXITSTATUS(status))};
  }
  measurement result = from_json(said);
  result.max_rss_kb = static_cast<std::uint64_t>(usage.ru_maxrss);
  return {result, {}};
}

}  // namespace

repetition repeat_in_child(const std::function<measurement()>& body, double timeout, const heartbeat& beat) {
  auto [from_child, to_parent] = make_pipe_ends();
  std::fflush(nullptr);  // or the child would print the parent's buffered text again
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    throw std::system_error(errno, std::generic_category(), "fork");
  }
  if (child == 0) {
    from_child.close();
    be_child(body, to_parent.get(), parent);
  }
  to_parent.close();
  const std::string text = listen(from_child.get(), child, timeout, beat);
  int status = 0;
  rusage usage{};
  while (::wait4(child, &status, 0, &usage) < 0) {
    if (errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "wait4");
    }
  }
  return judge(text, status, usage);
}

void fail_run(std::string_view why) noexcept {
  // Failures may come from many fibers at once; the first one is the cause, the others are echoes.
  static std::atomic_flag has_failed;
  if (!has_failed.test_and_set()) {
    report(nlohmann::json{{"failure", why}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    std::_Exit(EXIT_FAILURE);
  }
  for (;;) {
    ::pause();
  }
}

}  // namespace lagom::bench
