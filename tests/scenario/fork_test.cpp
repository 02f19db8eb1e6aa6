// SPDX-License-Identifier: BSL-1.0
// fork() in a process with a busy runtime: the parent does not notice, and the child can do what its manual says.
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "scenario.hpp"
#include "unit/runtime/child.hpp"
#include "unit/runtime/sanitizer.hpp"

using namespace lagom::tests;

namespace {

std::span<const std::byte> bytes_of(const std::uint32_t& n) { return std::as_bytes(std::span(&n, 1)); }

// Echo over loopback: each pair plays numbers to and fro, and nobody may miss one.
class load {
 public:
  load(lagom::runtime& rt, int pairs) : listener_(lagom::net::endpoint::parse("127.0.0.1:0")) {
    const lagom::net::endpoint at = listener_.local_endpoint();
    fibers_.push_back(rt.spawn([this, pairs] {
      std::vector<lagom::fiber> servers;
      watched([&] {
        for (int i = 0; i < pairs; ++i) {
          servers.push_back(lagom::spawn([this, s = listener_.accept()]() mutable { watched([&] { serve(s); }); }));
        }
      });
      for (lagom::fiber& f : servers) f.join();
    }));
    for (int i = 0; i < pairs; ++i) fibers_.push_back(rt.spawn([this, at] { watched([&] { play(at); }); }));
    fibers_.push_back(rt.spawn([this] {
      for (auto last = clock::now(); !over_;) {
        lagom::this_fiber::sleep_for(5ms);
        const auto now = clock::now();
        gaps_ms_.push_back(milliseconds(now - last));
        last = now;
      }
    }));
  }
  ~load() { finish(); }
  load(const load&) = delete;
  load& operator=(const load&) = delete;
  long errors() const { return errors_; }
  long rounds_played() const { return played_; }
  std::vector<double>& gaps_ms() { return gaps_ms_; }  // once it has ended
  void finish() {
    over_ = true;
    for (lagom::fiber& f : fibers_) f.join();
    fibers_.clear();
  }

 private:
  template <class F>
  void watched(F&& f) {
    try {
      f();
    } catch (const std::exception& e) {
      v_.expect(false, e.what());
      std::fprintf(stderr, "%d: %s\n", static_cast<int>(::getpid()), e.what());  // a child's verdict is not reported
      ++errors_;
    }
  }
  static bool read_all(lagom::net::tcp_stream& s, std::uint32_t& n) {
    std::span<std::byte> left = std::as_writable_bytes(std::span(&n, 1));
    while (!left.empty()) {
      const std::size_t got = s.read_some(left);
      if (got == 0) return false;
      left = left.subspan(got);
    }
    return true;
  }
  static void serve(lagom::net::tcp_stream& s) {
    for (std::uint32_t n = 0; read_all(s, n);) s.write_all(bytes_of(++n));
  }
  void play(const lagom::net::endpoint& at) {
    lagom::net::tcp_stream s = lagom::net::tcp_stream::connect(at);
    for (std::uint32_t n = 0; !over_; ++n) {
      // A lost event shows as a reply that does not come.
      s.set_read_deadline(clock::now() + limit(10s));
      s.write_all(bytes_of(n));
      std::uint32_t reply = 0;
      if (!v_.expect(read_all(s, reply) && reply == n + 1, "a wrong reply")) return;
      ++played_;
    }
  }

  lagom::net::tcp_listener listener_;
  std::atomic<bool> over_{false};
  std::atomic<long> played_{0}, errors_{0};
  verdict v_;
  std::vector<double> gaps_ms_;
  std::vector<lagom::fiber> fibers_;
};

int exit_status_of(pid_t child) {
  int status = -1;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// Forks, runs body in the child, and tells its wait status. What the child finds wrong is its exit code.
template <class Body>
int in_fork(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // a child that hangs ends the test
    int code = 99;
    try {
      code = body();
    } catch (...) {
    }
    ::_exit(code);
  }
  return exit_status_of(child);
}

template <class F>
bool throws_forked(F&& f) {
  return error_of(f) == lagom::errc::forked;
}

// Everything of the parent's runtime that a child may reach. 0, or the number of what went wrong.
int calls_on_parents(lagom::runtime& rt) {
  if (lagom::runtime::current() != nullptr) return 1;
  if (!throws_forked([&] { rt.spawn_detached([] {}); })) return 2;
  if (!throws_forked([&] { rt.run([] {}); })) return 3;
  if (!throws_forked([&] { static_cast<void>(rt.stop_for(1s)); })) return 4;
  if (!throws_forked([&] { rt.drain_for(1s); })) return 5;
  if (!throws_forked([&] { static_cast<void>(rt.stats()); })) return 6;
  if (!throws_forked([&] { rt.trim(); })) return 7;
  if (rt.post([] {})) return 8;
  rt.request_stop();
  if (error_of([] { lagom::spawn_detached([] {}); }) != lagom::errc::no_runtime) return 9;
  lagom::this_fiber::yield();
  lagom::this_fiber::sleep_for(1ms);
  return lagom::this_fiber::worker_index() == lagom::runtime::no_worker ? 0 : 10;
}

int new_runtime() {
  lagom::runtime own(scenario_options(2));
  lagom::channel<int> ch(4);
  std::atomic<int> sum{0};
  std::vector<lagom::fiber> fibers;
  for (int i = 0; i < 50; ++i) fibers.push_back(own.spawn([&, i] { ch.send(int(i)); }));
  fibers.push_back(own.spawn([&] {
    for (int k = 0; k < 50; ++k) sum += ch.receive().value_or(-1'000);
  }));
  for (lagom::fiber& f : fibers) f.join();
  if (sum != 49 * 50 / 2) return 1;
  load inner(own, 2);
  if (!becomes_true([&] { return inner.rounds_played() > 100; }, 20s)) return 2;
  inner.finish();
  if (inner.errors() != 0) return 5;
  if (own.run([] { return lagom::blocking([] { return 7; }); }) != 7) return 3;
  return own.stop_for(20s).clean() ? 0 : 4;
}

// Descriptors beyond the standard ones that a program sees which was just started. In a child that has made none.
int exec_child() {
  // dash and bash agree here: "$(ls)" would have one more of its own.
  const char* const script = "n=0; for f in /proc/self/fd/*; do case ${f##*/} in 0|1|2) ;; *) [ -e \"$f\" ] && n=$((n+1));; esac; done; exit $n";
  ::execl("/bin/sh", "sh", "-c", script, static_cast<char*>(nullptr));
  return 77;
}

int inherited_descriptors() {
  int n = 0;
  for (int fd = 3; fd < 1024; ++fd) {
    const int flags = ::fcntl(fd, F_GETFD);
    n += flags >= 0 && (flags & FD_CLOEXEC) == 0;
  }
  return n;
}

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 1'000 + WTERMSIG(status); }

struct tell_tale {
  int fd;
  ~tell_tale() { static_cast<void>(!::write(fd, "x", 1)); }
};

}  // namespace

TEST_CASE("26: a thread forks beside a busy runtime; the child execs, exits, calls the old runtime, makes a new one") {
  const leak_check leaks;
  // What the test program was given itself; nothing of ours may come on top.
  const int before = inherited_descriptors();
  {
    lagom::runtime rt(scenario_options(2));
    load work(rt, 4);
    REQUIRE(becomes_true([&] { return work.rounds_played() > 100; }, limit(20s)));
    const long forks = is_short() ? 12 : count_of(50, 1'000);
    for (long i = 0; i < forks; ++i) {
      const long played = work.rounds_played();
      switch (i % 4) {
        case 0: CHECK(code_of(in_fork(exec_child)) == before); break;
        case 1: {
          int ends[2] = {};
          REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
          {
            const tell_tale ours{ends[1]};
            CHECK(code_of(in_fork([&] { return 5; })) == 5);
            char c = 0;
            ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
            CHECK(::read(ends[0], &c, 1) < 0);  // no destructor ran in the child
          }
          ::close(ends[0]);
          ::close(ends[1]);
          break;
        }
        case 2: CHECK(code_of(in_fork([&] { return calls_on_parents(rt); })) == 0); break;
        default:
          // TSan refuses to start threads there.
          if (!under_thread_sanitizer) CHECK(code_of(in_fork(new_runtime)) == 0);
      }
      CHECK(becomes_true([&] { return work.rounds_played() > played; }, limit(10s)));
    }
    work.finish();
    // fork() itself stops everybody while it copies the page tables.
    INFO("longest: ", percentile(work.gaps_ms(), 100));
    CHECK(percentile(work.gaps_ms(), 99) < milliseconds(limit(100ms)));
    CHECK(rt.stop_for(limit(20s)).clean());
  }
  leaks.check();
}

TEST_CASE("26: a fiber forks: its child is on a plain thread, and may do the same") {
  lagom::runtime rt(scenario_options(2));
  load work(rt, 2);
  verdict v;
  for (int turn = 0; turn < 5; ++turn) {
    rt.run([&] {
      v.expect(code_of(in_fork([&] { return calls_on_parents(rt); })) == 0, "calls on the parent's runtime");
      if (!under_thread_sanitizer) v.expect(code_of(in_fork(new_runtime)) == 0, "a runtime of the child's");
      v.expect(code_of(in_fork([] {
                 const lagom::non_migratable guard;
                 lagom::yield_point give_way;
                 give_way();
                 lagom::mutex m;
                 const std::lock_guard hold(m);
                 return m.try_lock() ? 1 : 0;
               })) == 0,
               "guards and primitives");
      v.expect(lagom::runtime::current() == &rt, "the parent's fiber has lost its runtime");
      lagom::this_fiber::yield();
    });
  }
}

TEST_CASE("26: handles, streams and the runtime itself end in the child without waiting, and the parent keeps its events") {
  auto rt = std::make_unique<lagom::runtime>(scenario_options(2));
  auto listener = std::make_unique<lagom::net::tcp_listener>(lagom::net::endpoint::parse("127.0.0.1:0"));
  lagom::net::tcp_stream near = lagom::net::tcp_stream::connect(listener->local_endpoint());
  std::atomic<int> got{0};
  std::optional<lagom::net::tcp_stream> far;
  lagom::fiber reader = rt->spawn([&] {
    far.emplace(listener->accept());
    for (std::array<std::byte, 1> one; far->read_some(one) == 1;) ++got;
  });
  const std::byte byte{1};
  near.write_all(std::span(&byte, 1));
  REQUIRE(becomes_true([&] { return got == 1; }, limit(10s)));
  const int status = in_fork([&] {
    if (!throws_forked([&] { reader.join(); })) return 1;
    if (!throws_forked([&] { reader.join_for(1s); })) return 2;
    if (reader.request_stop()) return 3;
    reader = lagom::fiber();  // as its destructor
    far.reset();              // closes what the parent polls
    listener.reset();
    rt.reset();
    return 0;
  });
  CHECK(code_of(status) == 0);
  near.write_all(std::span(&byte, 1));
  CHECK(becomes_true([&] { return got == 2; }, limit(10s)));
  near.shutdown_write();
  reader.join();
}

// As a server does that forks for each connection.
TEST_CASE("26: the child may use a connection that the parent had in use") {
  lagom::runtime rt(scenario_options(2));
  lagom::net::tcp_listener listener(lagom::net::endpoint::parse("127.0.0.1:0"));
  for (int turn = 0; turn < 5; ++turn) {
    lagom::net::tcp_stream near = lagom::net::tcp_stream::connect(listener.local_endpoint());
    std::optional<lagom::net::tcp_stream> far;
    rt.run([&] { far.emplace(listener.accept()); });
    // Somebody is in the middle of a call, and with bad luck inside a lock.
    lagom::fiber reader = rt.spawn([&] {
      std::byte b{};
      std::error_code ec;
      far->read_some(std::span(&b, 1), ec);
    });
    const int status = in_fork([&] {
      const std::byte byte{42};
      far->write_all(std::span(&byte, 1));
      far.reset();
      return 0;
    });
    CHECK(code_of(status) == 0);
    std::byte got{};
    CHECK(near.read_some(std::span(&got, 1)) == 1);
    CHECK(got == std::byte{42});
    near.shutdown_write();
    reader.join();
  }
}

TEST_CASE("26: a fiber's function that returns in the child aborts, and says why") {
  const child_result result = run_in_child([] {
    lagom::runtime rt(scenario_options(1));
    rt.run([] {
      const pid_t child = ::fork();
      if (child > 0) ::_exit(code_of(exit_status_of(child)) == 1'000 + SIGABRT ? 3 : 4);
    });
  });
  CHECK(result.exited_with(3));
  CHECK(result.output.find("must exec or _exit") != std::string::npos);
}

TEST_CASE("26: a signal that the parent's signal_set waits for does in the child what it did before") {
  lagom::runtime rt(scenario_options(1));
  std::atomic<int> seen{0};
  lagom::fiber waits = rt.spawn([&] {
    lagom::io::signal_set set{SIGUSR2};
    seen = 1;
    seen = 1'000 + set.wait();
  });
  REQUIRE(becomes_true([&] { return seen == 1; }, limit(10s)));
  const int status = in_fork([] {
    ::raise(SIGUSR2);
    return 0;
  });
  CHECK(code_of(status) == 1'000 + SIGUSR2);
  CHECK(seen == 1);
  ::kill(::getpid(), SIGUSR2);
  CHECK(becomes_true([&] { return seen == 1'000 + SIGUSR2; }, limit(10s)));
  waits.join();
}
