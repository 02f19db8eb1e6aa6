// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <lagom/lagom.hpp>

namespace {

using namespace std::chrono_literals;

std::atomic<int> user_called{0};
void on_quit(int) { ++user_called; }

struct lines {
  std::mutex guard;
  std::string text;
  auto logger() {
    return [this](std::string_view line) {
      const std::lock_guard hold(guard);
      text += std::string(line) + '\n';
    };
  }
  bool has(const char* part) {
    const std::lock_guard hold(guard);
    return text.find(part) != std::string::npos;
  }
};

lagom::runtime_options options(lines& into) {
  lagom::runtime_options o;
  o.workers = 1;
  o.dump_on_sigquit = true;
  o.log = into.logger();
  return o;
}

struct sigaction present() {
  struct sigaction now {};
  sigaction(SIGQUIT, nullptr, &now);
  return now;
}

}  // namespace

TEST_CASE("SIGQUIT dumps every runtime that wants it, and the process goes on") {
  ::signal(SIGQUIT, SIG_DFL);  // a shell may have started us with it ignored
  lines first, second, third;
  {
    lagom::runtime one(options(first)), two(options(second));
    lagom::runtime_options plain = options(third);
    plain.dump_on_sigquit = false;
    lagom::runtime silent(plain);
    lagom::event never_set;
    lagom::attributes named;
    named.name = "sleeper";
    lagom::fiber f = one.spawn(named, [&] { never_set.wait(); });
    for (int i = 0; i < 2; ++i) {
      { const std::lock_guard hold(first.guard); first.text.clear(); }
      kill(getpid(), SIGQUIT);
      while (!first.has("'sleeper': parked (event)") && !first.has("'sleeper': run")) lagom::this_fiber::sleep_for(1ms);
      while (!second.has("0 fibers")) lagom::this_fiber::sleep_for(1ms);
    }
    never_set.set();
    f.join();
    CHECK(!third.has("fibers"));
  }
  CHECK((present().sa_handler == SIG_DFL));
}

TEST_CASE("a handler for SIGQUIT that was there is called too, and is back afterwards") {
  struct sigaction ours {}, before {};
  ours.sa_handler = on_quit;
  sigaction(SIGQUIT, &ours, &before);
  lines text;
  {
    lagom::runtime rt(options(text));
    user_called = 0;
    kill(getpid(), SIGQUIT);
    while (!text.has("0 fibers") || user_called == 0) lagom::this_fiber::sleep_for(1ms);
    CHECK(user_called == 1);
  }
  CHECK((present().sa_handler == on_quit));
  kill(getpid(), SIGQUIT);
  while (user_called < 2) lagom::this_fiber::sleep_for(1ms);
  sigaction(SIGQUIT, &before, nullptr);
}

// The user's handler calls what it has replaced: ours, even after the runtime. Nobody calls anybody in a circle.
namespace {
struct sigaction below_user;
void on_quit_and_below(int number, siginfo_t* info, void* context) {
  ++user_called;
  if ((below_user.sa_flags & SA_SIGINFO) != 0) below_user.sa_sigaction(number, info, context);
}
}  // namespace

TEST_CASE("a handler that is put over ours stays, and may go on calling ours") {
  struct sigaction over {};
  over.sa_sigaction = on_quit_and_below;
  over.sa_flags = SA_SIGINFO;
  user_called = 0;
  lines text, later;
  {
    lagom::runtime rt(options(text));
    sigaction(SIGQUIT, &over, &below_user);
    kill(getpid(), SIGQUIT);
    while (!text.has("0 fibers")) lagom::this_fiber::sleep_for(1ms);
  }
  CHECK((present().sa_sigaction == on_quit_and_below));
  const int so_far = user_called;
  kill(getpid(), SIGQUIT);
  while (user_called == so_far) lagom::this_fiber::sleep_for(1ms);
  {
    lagom::runtime rt(options(later));
    kill(getpid(), SIGQUIT);
    while (!later.has("0 fibers")) lagom::this_fiber::sleep_for(1ms);
  }
  signal(SIGQUIT, SIG_DFL);
}
