// SPDX-License-Identifier: BSL-1.0
// Signals over fibers: the overflow of a stack, other people's handlers and alternate stacks, profilers, calls that a signal
// interrupts.
#include <execinfo.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <future>
#include <thread>

#include "scenario.hpp"
#include "unit/runtime/child.hpp"
#include "unit/runtime/sanitizer.hpp"

using namespace lagom::tests;

namespace {

using handler = void (*)(int, siginfo_t*, void*);

struct sigaction install(int signal, handler h, int flags) {
  struct sigaction action {}, before {};
  action.sa_sigaction = h;
  action.sa_flags = SA_SIGINFO | flags;
  ::sigaction(signal, &action, &before);
  return before;
}

void say(const char* text) { static_cast<void>(!::write(STDERR_FILENO, text, std::strlen(text))); }

std::byte* nowhere() {
  static auto* const page = static_cast<std::byte*>(::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  return page;
}
void touch(std::byte* address) { *const_cast<volatile std::byte*>(address) = std::byte{1}; }

// An alternate stack as an application would have it.
struct alternate {
  std::vector<char> memory = std::vector<char>(128 * 1024);
  void use() {
    stack_t mine{};
    mine.ss_sp = memory.data();
    mine.ss_size = memory.size();
    ::sigaltstack(&mine, nullptr);
  }
  bool is_in_use() const {
    stack_t now{};
    return ::sigaltstack(nullptr, &now) == 0 && now.ss_sp == memory.data() && (now.ss_flags & SS_DISABLE) == 0;
  }
  bool holds(const void* address) const { return address >= memory.data() && address < memory.data() + memory.size(); }
};

volatile int deepest = 1'000'000'000;

template <std::size_t Frame>
[[gnu::noinline]] int descend(int depth) {
  volatile char frame[Frame];
  frame[0] = static_cast<char>(depth);
  // The read comes after the call, so that the recursion cannot be turned into a loop.
  const int deeper = depth < deepest ? descend<Frame>(depth + 1) : 0;
  return deeper + frame[0];
}

void must_not_be_called(int, siginfo_t*, void*) {
  say("the application's handler\n");
  ::_exit(40);
}

// A neighbour in the same slab: its stack is full of a pattern.
void watch_canaries(std::atomic<int>& ready) {
  volatile std::uint32_t canaries[8 * 1024];
  for (volatile std::uint32_t& c : canaries) c = 0xfeedbeef;
  ++ready;
  for (;;) {
    for (volatile std::uint32_t& c : canaries) {
      if (c != 0xfeedbeef) say("damaged\n");
    }
    lagom::this_fiber::yield();
  }
}

}  // namespace

namespace {

void check_overflow(int (*overflow)(int)) {
  const child_result result = run_in_child([overflow] {
    alternate own;
    own.use();
    install(SIGSEGV, must_not_be_called, SA_ONSTACK);
    lagom::runtime rt(scenario_options(2));
    std::atomic<int> ready{0};
    for (int i = 0; i < 6; ++i) rt.spawn_detached({.stack_size = 64 * 1024}, [&] { watch_canaries(ready); });
    rt.spawn({.name = "deep", .stack_size = 64 * 1024}, [&] {
        while (ready < 6) lagom::this_fiber::yield();
        char text[64];
        std::snprintf(text, sizeof text, "local %p\n", static_cast<void*>(text));
        say(text);
        overflow(0);
      }).join();
  });
  CAPTURE(result.output);
  CHECK(result.killed_by(SIGSEGV));
  std::uintptr_t local = 0, low = 0, high = 0;
  std::size_t kib = 0;
  const std::size_t at = result.output.find("stack overflow in fiber ");
  REQUIRE(at != std::string::npos);
  CHECK(result.output.find("'deep'", at) != std::string::npos);
  CHECK(result.output.find("damaged") == std::string::npos);
  CHECK(std::sscanf(result.output.c_str() + result.output.find("local "), "local %lx", &local) == 1);
  REQUIRE(std::sscanf(result.output.c_str() + result.output.find("its stack is ", at), "its stack is %lx to %lx (%zu KiB)", &low, &high, &kib) == 3);
  CHECK(low <= local);
  CHECK(local < high);
  CHECK(high - low == kib * 1024);
  CHECK(kib >= 64);
}

}  // namespace

TEST_CASE("8: an overflow is named, with the stack's bounds, and kills by SIGSEGV; neighbours are intact") {
  check_overflow(&descend<200>);
  // Frames that would step over a guard of one page.
  if (!under_sanitizer) check_overflow(&descend<12 * 1024>);
}

namespace {

sigjmp_buf back;
const alternate* expected_stack = nullptr;
std::atomic<int> on_right_stack{0}, on_wrong_stack{0};

void jump_back(int, siginfo_t* info, void*) {
  const char local = 0;
  ++(expected_stack->holds(&local) && info->si_addr == nowhere() ? on_right_stack : on_wrong_stack);
  ::siglongjmp(back, 1);
}

[[gnu::noinline]] void fault_and_recover(const alternate& stack) {
  expected_stack = &stack;
  if (sigsetjmp(back, 1) == 0) touch(nowhere());
}

}  // namespace

TEST_CASE("8: without an overflow the application's handler and alternate stacks are the ones in use") {
  if (under_sanitizer) return;  // their own handlers and jumps take part
  const child_result result = run_in_child([] {
    alternate of_main, of_worker;
    of_main.use();
    install(SIGSEGV, jump_back, SA_ONSTACK);
    {
      lagom::runtime_options options = scenario_options(1);
      options.on_worker_start = [&](unsigned) { of_worker.use(); };
      options.on_worker_stop = [&](unsigned) {
        if (!of_worker.is_in_use()) say("the worker's alternate stack was changed\n");
      };
      lagom::runtime rt(options);
      for (int i = 0; i < 3; ++i) {
        fault_and_recover(of_main);
        rt.run([&] {
          fault_and_recover(of_worker);
          lagom::this_fiber::sleep_for(1ms);
          fault_and_recover(of_worker);
        });
        if (!of_main.is_in_use()) say("the main thread's alternate stack was changed\n");
      }
    }
    fault_and_recover(of_main);
    struct sigaction now {};
    ::sigaction(SIGSEGV, nullptr, &now);
    if (now.sa_sigaction != jump_back) say("the handler was not put back\n");
    if (on_right_stack != 10 || on_wrong_stack != 0) say("the handler ran elsewhere\n");
  });
  CHECK(result.exited_with(0));
  CHECK(result.output == "");
}

namespace {

// Sends a signal to every thread of the process but itself, a thousand times a second.
class sender {
 public:
  explicit sender(int signal) : thread_([this, signal] { run(signal); }) {}
  ~sender() {
    over_ = true;
    thread_.join();
  }
  sender(const sender&) = delete;
  sender& operator=(const sender&) = delete;

 private:
  void run(int signal) {
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, signal);
    ::pthread_sigmask(SIG_BLOCK, &own, nullptr);
    const long self = ::syscall(SYS_gettid);
    while (!over_) {
      std::vector<long> threads;
      for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) threads.push_back(std::stol(entry.path().filename()));
      for (int i = 0; i < 20 && !over_; ++i) {
        for (const long thread : threads) {
          if (thread != self) ::syscall(SYS_tgkill, ::getpid(), thread, signal);
        }
        std::this_thread::sleep_for(1ms);
      }
    }
  }
  std::atomic<bool> over_{false};
  std::thread thread_;
};

std::atomic<long> strikes{0};

// A profiler's handler that needs 6 KiB on whatever stack it strikes.
void needs_6_kib(int, siginfo_t*, void*) {
  char room[6 * 1024];
  std::memset(room, 1, sizeof room);
  asm volatile("" ::"r"(room) : "memory");
  ++strikes;
}

}  // namespace

TEST_CASE("8: a handler that needs 6 KiB, at 1 kHz, over fibers of the smallest stacks") {
  strikes = 0;
  const struct sigaction before = install(SIGPROF, needs_6_kib, SA_RESTART);
  {
    lagom::runtime rt(scenario_options(2));
    std::atomic<bool> over{false};
    std::atomic<long> turns{0};
    lagom::mutex m;
    std::vector<lagom::fiber> fibers;
    for (int i = 0; i < 50; ++i) {
      fibers.push_back(rt.spawn({.stack_size = 16 * 1024}, [&, i] {
        while (!over) {
          compute(20us);
          switch ((turns++ + i) % 4) {
            case 0: lagom::this_fiber::yield(); break;
            case 1: lagom::this_fiber::checkpoint(); break;
            case 2: lagom::this_fiber::sleep_for(10us); break;
            default: {
              const std::lock_guard hold(m);
              lagom::spawn({.stack_size = 16 * 1024}, [] { compute(5us); }).join();
            }
          }
        }
      }));
    }
    {
      const sender profiler(SIGPROF);
      std::this_thread::sleep_for(window(1s, 30s));
    }
    over = true;
    for (lagom::fiber& f : fibers) f.join();
    CHECK(turns > 100);
  }
  ::sigaction(SIGPROF, &before, nullptr);
  CHECK(strikes > 100);
}

namespace {

constexpr int most_frames = 64;
constexpr long most_ends = 200'000;

// Where the traces end: filled by the handler, looked at afterwards.
std::array<std::atomic<void*>, most_ends> ends;
std::atomic<long> traces{0}, too_long{0};

void take_trace(int, siginfo_t*, void*) {
  void* frames[most_frames];
  const int n = ::backtrace(frames, most_frames);
  if (n >= most_frames) ++too_long;
  const long slot = traces++;
  if (n > 0 && slot < most_ends) ends[static_cast<std::size_t>(slot)] = frames[n - 1];
}

}  // namespace

TEST_CASE("33b: a profiler that takes backtraces at 1 kHz over a million switches a second") {
  traces = too_long = 0;
  void* warm_up[4];
  ::backtrace(warm_up, 4);  // loads the unwinder: not in a handler
  const struct sigaction before = install(SIGPROF, take_trace, SA_RESTART);
  void* entry = nullptr;
  {
    lagom::runtime rt(scenario_options(2));
    rt.run([&] {
      void* frames[most_frames];
      entry = frames[::backtrace(frames, most_frames) - 1];
    });
    std::atomic<bool> over{false};
    std::vector<lagom::fiber> fibers;
    for (int i = 0; i < 20; ++i) {
      fibers.push_back(rt.spawn([&] {
        while (!over) lagom::this_fiber::yield();
      }));
    }
    {
      const sender profiler(SIGPROF);
      std::this_thread::sleep_for(window(1s, 30s));
    }
    over = true;
    for (lagom::fiber& f : fibers) f.join();
    CHECK(rt.stats().workers[0].switches + rt.stats().workers[1].switches > 10'000);
  }
  ::sigaction(SIGPROF, &before, nullptr);
  CHECK(traces > 100);
  CHECK(too_long == 0);
  if (under_sanitizer) return;  // backtrace() is theirs
  // A trace that strikes in a fiber ends at its entry; one between two fibers, in code without unwind tables, ends there. None ends
  // in the void.
  long at_entry = 0;
  for (long i = 0; i < std::min(traces.load(), most_ends); ++i) {
    void* const end = ends[static_cast<std::size_t>(i)];
    Dl_info where{};
    at_entry += end == entry;
    CHECK(::dladdr(end, &where) != 0);
  }
  CHECK(at_entry > 50);
}

namespace {

void count_strike(int, siginfo_t*, void*) { ++strikes; }

// Every timed wait: not early, not an error. From a fiber and from a plain thread.
void wait_in_every_way(verdict& v, const std::function<bool()>& is_over) {
  const auto not_early = [&](const char* what, const auto& wait) {
    const auto begun = clock::now();
    v.expect(wait(), what);
    v.expect(clock::now() - begun >= 2ms, what);
  };
  lagom::counting_semaphore<8> none(0);
  lagom::timed_mutex m;
  m.lock();
  lagom::mutex guard;
  lagom::condition_variable cv;
  lagom::event never_set;
  lagom::channel<int> empty(1);
  lagom::promise<int> promise;
  lagom::future<int> result = promise.get_future();
  while (!is_over()) {
    not_early("sleep_for", [] { return lagom::this_fiber::sleep_for(2ms), true; });
    not_early("semaphore", [&] { return !none.try_acquire_for(2ms); });
    not_early("timed_mutex", [&] { return !m.try_lock_for(2ms); });
    not_early("event", [&] { return !never_set.wait_for(2ms); });
    not_early("channel", [&] {
      int item = 0;
      return empty.receive_for(item, 2ms) == lagom::channel_status::timeout;
    });
    not_early("future", [&] { return result.wait_for(2ms) != std::future_status::ready; });
    not_early("condition variable", [&] {
      std::unique_lock lock(guard);
      return !cv.wait_for(lock, 2ms, [] { return false; });
    });
    int done = 0;
    lagom::blocking([&] { ++done; });
    v.expect(done == 1, "blocking");
  }
  m.unlock();
}

template <class F>
void no_error(verdict& v, F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    v.expect(false, e.what());
  }
}

// Bytes through a pipe and a connection, in pieces that fill them.
void move_bytes(verdict& v, lagom::runtime& rt, const std::function<bool()>& is_over) {
  int pipe_ends[2] = {};
  if (::pipe2(pipe_ends, O_NONBLOCK | O_CLOEXEC) != 0) std::abort();
  lagom::net::tcp_listener listener(lagom::net::endpoint::loopback(0));
  std::vector<lagom::fiber> fibers;
  constexpr std::size_t piece = 100'000;
  std::atomic<std::size_t> sent{0}, received{0}, piped{0}, read{0};
  fibers.push_back(rt.spawn([&] {
    no_error(v, [&] {
      lagom::net::tcp_stream s = lagom::net::tcp_stream::connect(listener.local_endpoint());
      const std::vector<std::byte> bytes(piece);
      while (!is_over()) sent += s.write_all(bytes);
    });
  }));
  fibers.push_back(rt.spawn([&] {
    no_error(v, [&] {
      lagom::net::tcp_stream s = listener.accept();
      std::vector<std::byte> room(piece);
      for (std::size_t n = 0; (n = s.read_some(room)) > 0;) received += n;
    });
  }));
  fibers.push_back(rt.spawn([&] {
    no_error(v, [&] {
      const std::vector<std::byte> bytes(piece);
      while (!is_over()) piped += lagom::io::write(pipe_ends[1], bytes);
    });
    ::close(pipe_ends[1]);
  }));
  fibers.push_back(rt.spawn([&] {
    no_error(v, [&] {
      std::vector<std::byte> room(piece);
      for (std::size_t n = 0; (n = lagom::io::read(pipe_ends[0], room)) > 0;) read += n;
    });
    ::close(pipe_ends[0]);
  }));
  for (lagom::fiber& f : fibers) f.join();
  v.expect(sent > 0 && sent == received, "bytes of the connection");
  v.expect(piped > 0 && piped == read, "bytes of the pipe");
}

}  // namespace

TEST_CASE("33c: a signal at 1 kHz without SA_RESTART makes no call fail, and none return early") {
  strikes = 0;
  const struct sigaction before = install(SIGUSR1, count_strike, 0);
  {
    verdict v;
    lagom::runtime rt(scenario_options(2));
    const sender disturber(SIGUSR1);
    const auto until = clock::now() + window(1s, 20s);
    const auto is_over = [&] { return clock::now() >= until; };
    std::vector<lagom::fiber> fibers;
    for (int i = 0; i < 4; ++i) fibers.push_back(rt.spawn([&] { no_error(v, [&] { wait_in_every_way(v, is_over); }); }));
    std::thread plain([&] { no_error(v, [&] { wait_in_every_way(v, is_over); }); });
    std::thread caller([&] {
      no_error(v, [&] {
        while (!is_over()) {
          v.expect(rt.run([] { return lagom::this_fiber::sleep_for(1ms), 7; }) == 7, "run");
          const auto begun = clock::now();
          v.expect(!rt.drain_for(2ms) && clock::now() - begun >= 2ms, "drain_for");
        }
      });
    });
    move_bytes(v, rt, is_over);
    for (lagom::fiber& f : fibers) f.join();
    plain.join();
    caller.join();
  }
  ::sigaction(SIGUSR1, &before, nullptr);
  CHECK(strikes > 100);
}
