// SPDX-License-Identifier: BSL-1.0
// The machine is not what it was in the office: other CPUs, fewer of them, changing ones, limits.
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "scenario.hpp"

using namespace lagom::tests;

namespace {

std::vector<int> allowed_cpus() {
  cpu_set_t mask;
  REQUIRE(sched_getaffinity(0, sizeof mask, &mask) == 0);
  std::vector<int> all;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(static_cast<std::size_t>(i), &mask)) all.push_back(i);
  }
  return all;
}

cpu_set_t mask_of(const std::vector<int>& cpus) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &mask);
  return mask;
}

// All threads of the process, as taskset -a does from outside.
void restrict_all_threads(const std::vector<int>& cpus) {
  const cpu_set_t mask = mask_of(cpus);
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    sched_setaffinity(std::stoi(entry.path().filename()), sizeof mask, &mask);  // one may have ended meanwhile
  }
}

// Restores the mask of the main thread, and so that of threads to come.
struct own_mask {
  std::vector<int> before = allowed_cpus();
  ~own_mask() { restrict_all_threads(before); }
};

struct folder {
  std::filesystem::path path;
  folder() {
    std::string name = (std::filesystem::temp_directory_path() / "lagom-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  ~folder() { std::filesystem::remove_all(path); }
};

void write(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text << '\n';
}

unsigned count_up(lagom::runtime& rt, int fibers) {
  std::atomic<unsigned> ran{0};
  std::vector<lagom::fiber> all;
  for (int i = 0; i < fibers; ++i) {
    all.push_back(rt.spawn([&ran] {
      lagom::this_fiber::yield();
      ++ran;
    }));
  }
  all.clear();
  return ran;
}

}  // namespace

TEST_CASE("22a: one polite job per worker, again and again: they run side by side") {
  const unsigned workers = std::max(2u, static_cast<unsigned>(allowed_cpus().size()));
  lagom::runtime rt(scenario_options(workers));
  for (const auto pause : {900us, 1300us, 5000us}) {
    std::vector<double> wall;
    for (long i = 0; i < count_of(40, 200); ++i) {
      std::this_thread::sleep_for(pause);
      rt.run([&] {
        const auto begun = clock::now();
        std::vector<lagom::fiber> jobs;
        for (unsigned w = 0; w < workers; ++w) {
          jobs.push_back(lagom::spawn([] {
            for (const auto until = clock::now() + 20ms; clock::now() < until; lagom::this_fiber::checkpoint()) compute(20us);
          }));
        }
        for (lagom::fiber& f : jobs) f.join();
        wall.push_back(milliseconds(clock::now() - begun));
      });
    }
    CHECK(percentile(wall, is_long() ? 95 : 80) < milliseconds(limit(32ms)));
  }
}

TEST_CASE("24a: as many workers as CPUs we may use, and they stay there") {
  const own_mask mine;
  const std::vector<int> last{mine.before.back()};
  restrict_all_threads(last);
  lagom::runtime rt;
  CHECK(rt.workers() == 1);
  CHECK(count_up(rt, 100) == 100);
  int cpu = -1;
  rt.run([&cpu] { cpu = sched_getcpu(); });
  CHECK(cpu == last.front());
}

TEST_CASE("24b: the cgroup's quota bounds the workers; garbage does not") {
  const auto cpus = static_cast<unsigned>(allowed_cpus().size());
  struct limit_file {
    const char* text;
    unsigned most;
  };
  for (const limit_file& l : {limit_file{"150000 100000", 2}, {"max 100000", cpus}, {"-1 100000", cpus}, {"50000 100000", 1}, {"garbage", cpus}, {"", cpus}}) {
    CAPTURE(l.text);
    const folder root;
    write(root.path / "proc/self/cgroup", "0::/a/b");
    write(root.path / "sys/fs/cgroup/cgroup.controllers", "cpu");
    write(root.path / "sys/fs/cgroup/a/b/cpu.max", "max 100000");
    write(root.path / "sys/fs/cgroup/a/cpu.max", l.text);  // a parent's counts too
    lagom::runtime_options options;
    options.cgroup_root = root.path.string();
    lagom::runtime rt(options);
    CHECK(rt.workers() == std::max(1u, std::min(cpus, l.most)));
    CHECK(count_up(rt, 10) == 10);
  }
}

TEST_CASE("24c: one worker, one thread spawns, another joins") {
  lagom::runtime rt(scenario_options(1));
  for (int i = 0; i < 50; ++i) {
    lagom::fiber f;
    std::thread([&] { f = rt.spawn([] { lagom::this_fiber::yield(); }); }).join();
    bool is_done = false;
    std::thread([&] { is_done = f.join_for(limit(1s)); }).join();
    CHECK(is_done);
  }
}

TEST_CASE("25: the CPUs change under way") {
  const own_mask mine;
  if (mine.before.size() < 2) return;  // nothing to take away
  const std::vector<int> two(mine.before.begin(), mine.before.begin() + 2), one{two[1]};
  restrict_all_threads(two);
  lagom::runtime rt;
  contest c(rt);
  std::atomic<long> turns{0};
  lagom::detail::spin_lock lock;
  std::set<unsigned> seen;  // workers, one per CPU; which CPU a thread of two gets is the system's affair
  for (int i = 0; i < 8; ++i) {
    c.start({}, [&](contestant&) {
      while (!c.is_over()) {
        compute(200us);
        ++turns;
        {
          const lagom::detail::spin_guard hold(lock);
          seen.insert(lagom::this_fiber::worker_index());
        }
        lagom::this_fiber::yield();
      }
    });
  }
  for (long i = 0; i < count_of(2, 20); ++i) {
    restrict_all_threads(one);
    std::this_thread::sleep_for(is_long() ? 5s : 1500ms);
    const long before = turns;
    CHECK(becomes_true([&] { return turns > before; }, limit(1s)));
    restrict_all_threads(two);
    std::this_thread::sleep_for(2s);
    {
      const lagom::detail::spin_guard hold(lock);
      seen.clear();
    }
    CHECK(becomes_true(
        [&] {
          const lagom::detail::spin_guard hold(lock);
          return seen.size() == 2 && rt.workers() == 2;
        },
        limit(2s)));
  }
  c.finish();
}

TEST_CASE("31: any machine will do") {
  const char* shapes[] = {"pu:1", "core:2 pu:1", "pack:1 [numa] l3:1 core:4 pu:2", "pack:2 [numa(memory=64GB)] l3:1 core:8 pu:2",
                          "pack:1 core:4 pu:8", "pack:1 [numa(memory=64GB)] [numa(memory=16GB)] l3:4 core:8 pu:2", "pu:300"};
  for (const char* shape : shapes) {
    CAPTURE(shape);
    for (const unsigned workers : {0u, 2u, 3u, 5u}) {
      if (workers == 0 && std::string(shape) == "pu:300" && is_short()) continue;  // 300 threads
      lagom::runtime_options options;
      options.workers = workers;
      options.topology = std::string("synthetic:") + shape;
      lagom::runtime rt(options);
      if (workers != 0) CHECK(rt.workers() == workers);
      CHECK(count_up(rt, 200) == 200);
    }
  }
  for (const char* file : {"hybrid_x86_2p4e", "arm_1_3_4", "numa4_dist", "sparse_odd", "memory_only_node", "cpus_without_node", "disallowed_cpu"}) {
    CAPTURE(file);
    lagom::runtime_options options;
    options.topology = std::string("xml:" LAGOM_TOPOLOGY_FILES "/") + file + ".xml";
    lagom::runtime rt(options);
    CHECK(rt.workers() > 0);
    CHECK(count_up(rt, 200) == 200);
  }
}
