// SPDX-License-Identifier: BSL-1.0
// Asks three servers at once and takes what has arrived in time: a scope, a deadline, and a stop for the rest. What is
// stopped unwinds by an exception, so its destructors run; nobody is left behind. Prints who answered.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <lagom/lagom.hpp>

using namespace std::chrono_literals;

namespace {

struct server {
  const char* name;
  std::chrono::milliseconds delay;
};

// Tells that its scope was left, however.
struct connection {
  std::atomic<int>& open;
  explicit connection(std::atomic<int>& count) : open(count) { ++open; }
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  ~connection() { --open; }
};

}  // namespace

int main() {
  const server servers[] = {{"near", 1ms}, {"far", 20ms}, {"lost", std::chrono::hours(1)}};
  lagom::runtime runtime;
  std::vector<std::string> answers;
  std::atomic<int> open{0};
  bool in_time = true;

  runtime.run([&] {
    lagom::mutex guard;
    lagom::scope all;
    for (const server& s : servers) {
      all.spawn([&, s] {
        const connection c(open);
        lagom::this_fiber::sleep_for(s.delay);  // throws std::system_error(errc::stopped) when it is stopped
        const std::lock_guard hold(guard);
        answers.push_back(s.name);
      });
    }
    in_time = all.join_for(500ms);
    if (!in_time) {
      all.request_stop();  // what they throw to obey it is no error of the scope
      all.join();
    }
  });

  for (const std::string& a : answers) std::printf("%s answered\n", a.c_str());
  std::printf("%s; connections left open: %d\n", in_time ? "all in time" : "the rest was stopped", open.load());
  return !in_time && open == 0 && answers.size() == 2 ? 0 : 1;
}
