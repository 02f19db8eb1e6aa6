// SPDX-License-Identifier: BSL-1.0
// The workloads of lagom-bench on Boost.Fiber: yield, pipe, messaging, spawn. Prints one line of JSON. One worker:
// round_robin, the fastest; more: work_stealing.
#include <sys/resource.h>

#include <boost/fiber/all.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

namespace fibers = boost::fibers;
using clock_type = std::chrono::steady_clock;

constexpr std::size_t senders = 20, receivers = 20;
// buffered_channel wants a power of two and keeps one slot free: 63 messages, one less than the others have.
constexpr std::size_t capacity = 64;
constexpr std::size_t stack_bytes = 16 * 1024;

struct settings {
  std::string workload;
  std::size_t workers = 1, fibers = 2, loops = 100, groups = 10;
};

struct message {
  std::uint32_t receiver, sender, sequence;
  std::array<std::byte, 84> filling;
  std::uint32_t seal;
};
static_assert(sizeof(message) == 100);

std::uint32_t seal_of(std::uint32_t receiver, std::uint32_t sender, std::uint32_t sequence) {
  return receiver ^ (sender << 24) ^ ~sequence;
}

[[noreturn]] void fail(const char* why) {
  std::fprintf(stderr, "%s\n", why);
  std::exit(EXIT_FAILURE);
}

double cpu_seconds_so_far() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  constexpr double seconds_per_us = 1e-6;
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * seconds_per_us;
}

/// The time from its construction: on the wall, and of CPUs of the whole process.
struct span {
  double wall = 0, cpu = cpu_seconds_so_far();
  clock_type::time_point start = clock_type::now();

  span end() const {
    span out = *this;
    out.wall = std::chrono::duration<double>(clock_type::now() - start).count();
    out.cpu = cpu_seconds_so_far() - cpu;
    return out;
  }
};

struct outcome {
  span took;
  std::uint64_t ops;
};

/// Boost's pools are for one thread only; where a fiber may end on another thread its stack comes from malloc.
template <class Body>
fibers::fiber launch(const settings& what, Body body) {
  static thread_local fibers::pooled_fixedsize_stack pool(stack_bytes);
  return what.workers == 1 ? fibers::fiber(fibers::launch::post, std::allocator_arg, pool, std::move(body))
                           : fibers::fiber(fibers::launch::post, std::allocator_arg,
                                           fibers::fixedsize_stack(stack_bytes), std::move(body));
}

/// Ready, go, done, as in lagom-bench.
span run_team(const settings& what, std::size_t count, const std::function<void(std::size_t)>& body) {
  fibers::mutex mutex;
  fibers::condition_variable changed;
  std::size_t ready = 0;
  bool is_open = false;
  std::vector<fibers::fiber> team;
  team.reserve(count);
  for (std::size_t index = 0; index < count; ++index) {
    team.push_back(launch(what, [&, index] {
      {
        std::unique_lock lock(mutex);
        if (++ready == count) changed.notify_all();
        changed.wait(lock, [&] { return is_open; });
      }
      body(index);
    }));
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return ready == count; });
  const span began;
  is_open = true;
  lock.unlock();
  changed.notify_all();
  for (auto& member : team) member.join();
  return began.end();
}

outcome run_yield(const settings& what) {
  const std::size_t each = (what.loops + what.fibers - 1) / what.fibers;
  const span took = run_team(what, what.fibers, [&](std::size_t) {
    for (std::size_t turn = 0; turn < each; ++turn) boost::this_fiber::yield();
  });
  return {took, each * what.fibers};
}

outcome run_pipe(const settings& what) {
  fibers::buffered_channel<int> there(2), back(2);  // hold one token each
  const span took = run_team(what, 2, [&](std::size_t index) {
    for (std::size_t round = 0; round < what.loops; ++round) {
      const int token = static_cast<int>(round & 0x7fff'ffff);
      if (index == 0) {
        there.push(token);
        if (back.value_pop() != ~token) fail("the wrong token came back");
      } else {
        if (there.value_pop() != token) fail("the wrong token arrived");
        back.push(~token);
      }
    }
  });
  return {took, what.loops};
}

void receive_all(fibers::buffered_channel<message>& inbox, std::uint32_t receiver, std::size_t loops) {
  std::array<std::uint32_t, senders> next{};
  message m{};
  for (std::size_t count = 0; count < senders * loops; ++count) {
    inbox.pop(m);
    if (m.receiver != receiver || m.sender >= senders || m.seal != seal_of(m.receiver, m.sender, m.sequence) ||
        m.sequence != next[m.sender]) {
      fail("a receiver got a wrong message");
    }
    ++next[m.sender];
  }
}

outcome run_messaging(const settings& what) {
  std::deque<fibers::buffered_channel<message>> inboxes;
  for (std::size_t receiver = 0; receiver < what.groups * receivers; ++receiver) inboxes.emplace_back(capacity);
  const span took = run_team(what, what.groups * (senders + receivers), [&](std::size_t index) {
    const std::size_t group = index / (senders + receivers), place = index % (senders + receivers);
    if (place < receivers) {
      const std::size_t receiver = group * receivers + place;
      receive_all(inboxes[receiver], static_cast<std::uint32_t>(receiver), what.loops);
      return;
    }
    const auto sender = static_cast<std::uint32_t>(place - receivers);
    for (std::uint32_t sequence = 0; sequence < what.loops; ++sequence) {
      for (std::size_t to = group * receivers; to < (group + 1) * receivers; ++to) {
        const auto receiver = static_cast<std::uint32_t>(to);
        inboxes[to].push(message{receiver, sender, sequence, {}, seal_of(receiver, sender, sequence)});
      }
    }
  });
  return {took, what.groups * senders * receivers * what.loops};
}

outcome run_spawn(const settings& what) {
  std::vector<std::uint64_t> marks(what.fibers);
  std::vector<fibers::fiber> batch;
  batch.reserve(what.fibers);
  std::uint64_t expected = 0;
  const span began;
  for (std::size_t done = 0; done < what.loops;) {
    const std::size_t count = std::min(what.fibers, what.loops - done);
    for (std::size_t place = 0; place < count; ++place) {
      batch.push_back(launch(what, [mark = &marks[place], value = place + 1] { *mark += value; }));
    }
    for (auto& one : batch) one.join();
    batch.clear();
    done += count;
    expected += count * (count + 1) / 2;
  }
  const span took = began.end();
  if (std::accumulate(marks.begin(), marks.end(), std::uint64_t{0}) != expected) fail("not every fiber ran once");
  return {took, what.loops};
}

outcome run_workload(const settings& what) {
  if (what.workload == "yield") return run_yield(what);
  if (what.workload == "pipe") return run_pipe(what);
  if (what.workload == "messaging") return run_messaging(what);
  if (what.workload == "spawn") return run_spawn(what);
  fail("there is no such workload");
}

/// The calling thread and workers - 1 others share their fibers until the workload is done.
outcome run_with_workers(const settings& what) {
  if (what.workers == 1) return run_workload(what);
  const auto join_in = [&] {
    fibers::use_scheduling_algorithm<fibers::algo::work_stealing>(static_cast<std::uint32_t>(what.workers), true);
  };
  fibers::mutex mutex;
  fibers::condition_variable_any changed;
  bool is_over = false;
  std::vector<std::thread> others;
  for (std::size_t other = 1; other < what.workers; ++other) {
    others.emplace_back([&] {
      join_in();
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return is_over; });
    });
  }
  join_in();
  const outcome result = run_workload(what);
  {
    std::unique_lock lock(mutex);
    is_over = true;
  }
  changed.notify_all();
  for (auto& other : others) other.join();
  return result;
}

settings parse(int argc, char** argv) {
  settings what;
  if (argc < 2 || argc % 2 != 0) {
    fail("usage: peer-boost yield|pipe|messaging|spawn [--workers N] [--fibers N] [--loops N] [--groups N]");
  }
  what.workload = argv[1];
  for (int at = 2; at < argc; at += 2) {
    const std::string_view name = argv[at];
    const std::size_t value = std::stoul(argv[at + 1]);
    if (name == "--workers")
      what.workers = value;
    else if (name == "--fibers")
      what.fibers = value;
    else if (name == "--loops")
      what.loops = value;
    else if (name == "--groups")
      what.groups = value;
    else
      fail("unknown option");
  }
  return what;
}

}  // namespace

int main(int argc, char** argv) {
  const outcome result = run_with_workers(parse(argc, argv));
  constexpr double ns_per_second = 1e9;
  std::printf("{\"ops\": %llu, \"seconds\": %.9f, \"cpu_seconds\": %.6f, \"ns_per_op\": %.3f}\n",
              static_cast<unsigned long long>(result.ops), result.took.wall, result.took.cpu,
              result.took.wall * ns_per_second / static_cast<double>(result.ops));
}
