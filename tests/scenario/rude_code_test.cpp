// SPDX-License-Identifier: BSL-1.0
// Nothing is stuck behind a worker that one fiber keeps.
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <thread>

#include <lagom/io.hpp>

#include "scenario.hpp"
#include "unit/runtime/sanitizer.hpp"

using namespace lagom::tests;

namespace {

// What the runtime says, by any thread.
class log_lines {
 public:
  void operator()(std::string_view line) {
    const std::lock_guard hold(lock_);
    lines_.emplace_back(line);
  }
  long count(std::string_view part) const {
    const std::lock_guard hold(lock_);
    return std::count_if(lines_.begin(), lines_.end(), [&](const std::string& l) { return l.find(part) != std::string::npos; });
  }

 private:
  mutable std::mutex lock_;
  std::vector<std::string> lines_;
};

struct socket_pair {
  socket_pair() { REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0); }
  ~socket_pair() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  socket_pair(const socket_pair&) = delete;
  socket_pair& operator=(const socket_pair&) = delete;
  int ends[2];
};

// 20 ready, 20 sleeping and 20 waiting for a socket, all made on the worker that a rude fiber then keeps: how late, in ms
// after their time, they ran.
std::vector<double> lateness_behind_rude_fiber(unsigned workers, log_lines& said) {
  lagom::runtime_options options = scenario_options(workers);
  options.log = [&said](std::string_view line) { said(line); };
  lagom::runtime rt(options);
  constexpr int of_each = 20;
  std::vector<std::unique_ptr<socket_pair>> sockets;
  for (int i = 0; i < of_each; ++i) sockets.push_back(std::make_unique<socket_pair>());
  std::vector<double> late(3 * of_each, -1);
  std::atomic<int> ran{0};
  std::atomic<bool> is_over{false};
  std::atomic<clock::rep> rude_since{0};
  lagom::fiber maker = rt.spawn([&] {
    std::vector<lagom::fiber> all;
    for (int i = 0; i < of_each; ++i) {
      const auto due = clock::now() + 60ms;
      all.emplace_back([&, i, due] {
        lagom::this_fiber::sleep_until(due);
        late[static_cast<std::size_t>(of_each + i)] = milliseconds(clock::now() - due);
        ++ran;
      });
      all.emplace_back([&, i] {
        lagom::io::wait_readable(sockets[static_cast<std::size_t>(i)]->ends[0]);
        char stamp[sizeof(clock::rep)];
        REQUIRE(::read(sockets[static_cast<std::size_t>(i)]->ends[0], stamp, sizeof stamp) == sizeof stamp);
        clock::rep sent = 0;
        std::memcpy(&sent, stamp, sizeof sent);
        late[static_cast<std::size_t>(2 * of_each + i)] = milliseconds(clock::now().time_since_epoch() - clock::duration(sent));
        ++ran;
      });
    }
    lagom::this_fiber::sleep_for(20ms);  // they wait now
    rude_since = clock::now().time_since_epoch().count();  // before the first of them may run elsewhere
    for (int i = 0; i < of_each; ++i) {
      all.emplace_back([&, i] {
        late[static_cast<std::size_t>(i)] = milliseconds(clock::now().time_since_epoch() - clock::duration(rude_since.load()));
        ++ran;
      });
    }
    for (const auto until = clock::now() + limit(2s); clock::now() < until && !is_over;) {  // rude
    }
  });
  becomes_true([&] { return rude_since != 0; }, limit(5s));
  std::this_thread::sleep_for(30ms);
  for (const auto& s : sockets) {
    const clock::rep now = clock::now().time_since_epoch().count();
    REQUIRE(::write(s->ends[1], &now, sizeof now) == sizeof now);
  }
  becomes_true([&] { return ran == 3 * of_each; }, limit(1500ms));
  CHECK(ran == 3 * of_each);
  becomes_true([&] { return said.count("has held worker") > 0; }, limit(3s));
  is_over = true;
  maker.join();
  return late;
}

void check_lateness(std::vector<double> late) {
  CHECK(*std::min_element(late.begin(), late.end()) >= 0);
  CHECK(percentile(late, 95) <= milliseconds(limit(50ms)));
}

}  // namespace

TEST_CASE("22b: ready fibers, sleepers and socket waiters go on elsewhere while one fiber keeps their worker") {
  log_lines said;
  check_lateness(lateness_behind_rude_fiber(2, said));
  CHECK(said.count("has held worker") == 1);
  // Where it is: at least the file. TSan delivers no signal to a loop that calls nothing.
  if (!under_thread_sanitizer) CHECK(said.count("rude_code_test") > 0);
}

TEST_CASE("22b with one worker: a substitute comes, and goes when it is no longer needed") {
  log_lines said;
  check_lateness(lateness_behind_rude_fiber(1, said));
  CHECK(said.count("has held worker") == 1);
}

TEST_CASE("a polite fiber with a long slice is not taken for a rude one") {
  log_lines said;
  lagom::runtime_options options = scenario_options(1);
  options.log = [&said](std::string_view line) { said(line); };
  options.stuck_threshold = 50ms;
  lagom::runtime rt(options);
  contest all(rt);
  contestant& a = all.burner({.slice = 100ms});
  contestant& b = all.burner({.slice = 100ms});
  all.measure(window(1s, 4s));
  CHECK(said.count("has held worker") == 0);
  CHECK(a.handle.stats().migrations + b.handle.stats().migrations == 0);
  CHECK(rt.stats().workers.size() == 1);
}

TEST_CASE("who may run nowhere else waits behind a rude fiber, and is not lost") {
  lagom::runtime rt(scenario_options(1));
  std::atomic<int> ran{0};
  std::atomic<bool> is_over{false}, begun{false};
  lagom::fiber rude = rt.spawn([&] {
    lagom::fiber pinned({.pinned = true}, [&] { ++ran; });
    lagom::fiber free([&] { ++ran; });
    begun = true;
    while (!is_over) {
    }
  });
  becomes_true([&] { return ran == 1; }, limit(5s));
  CHECK(ran == 1);
  is_over = true;
  rude.join();
  CHECK(ran == 2);
}
