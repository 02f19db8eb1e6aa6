// SPDX-License-Identifier: BSL-1.0
// Calls that hold their thread, offloaded: threads that come and go, a stop with a deadline, files and a slow FIFO.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "scenario.hpp"

using namespace lagom::tests;

TEST_CASE("25: offloads mixed with yields, pauses in which all extra threads retire, again and again") {
  const leak_check leaks;
  lagom::runtime_options options = scenario_options(2);
  options.blocking_keep_alive = 10ms;
  {
    lagom::runtime rt(options);
    const long cycles = count_of(50, 500);
    std::atomic<long> offloads{0}, yields{0};
    for (long cycle = 0; cycle < cycles; ++cycle) {
      std::vector<lagom::fiber> fibers;
      for (int i = 0; i < 64; ++i) {
        fibers.push_back(rt.spawn([&] {
          lagom::blocking([] { std::this_thread::sleep_for(5ms); });
          ++offloads;
        }));
        fibers.push_back(rt.spawn([&] {
          for (int turn = 0; turn < 20; ++turn) lagom::this_fiber::yield();
          ++yields;
        }));
      }
      for (lagom::fiber& f : fibers) REQUIRE(f.join_for(limit(10s)));
      std::this_thread::sleep_for(30ms);
    }
    CHECK(offloads == 64 * cycles);
    CHECK(yields == 64 * cycles);
    CHECK(becomes_true([&] { return rt.stats().blocking_threads == 0; }, limit(10s)));
  }
  leaks.check();
}

TEST_CASE("5: a stop with a deadline while offloads sleep in the kernel: in time, with their names; then all comes back") {
  const leak_check leaks;
  const auto asleep = is_long() ? 20s : 2s;
  for (int turn = 0; turn < (is_long() ? 5 : 1); ++turn) {
    lagom::runtime rt(scenario_options(2));
    std::vector<lagom::fiber> fibers;
    std::atomic<int> inside{0}, stopped{0};
    for (int i = 0; i < 4; ++i) {
      fibers.push_back(rt.spawn({.name = "offload " + std::to_string(i)}, [&] {
        lagom::blocking([&] {
          ++inside;
          std::this_thread::sleep_for(asleep);
        });
      }));
    }
    for (int i = 0; i < 500; ++i) {
      fibers.push_back(rt.spawn([&] { stopped += error_of([] { lagom::this_fiber::sleep_for(1h); }) == lagom::errc::stopped; }));
    }
    REQUIRE(becomes_true([&] { return inside == 4; }, limit(1s)));
    const auto begin = clock::now();
    const lagom::stop_report report = rt.stop_for(500ms);
    CHECK(clock::now() - begin < limit(1s));
    CHECK(stopped == 500);
    REQUIRE(report.left.size() == 4);
    for (const lagom::fiber_info& f : report.left) {
      CHECK(f.name.rfind("offload ", 0) == 0);
      CHECK(f.wait_reason == "blocking call");
    }
    for (lagom::fiber& f : fibers) f.join();
  }
  leaks.check();
}

TEST_CASE("34b: files and a slow FIFO are read beside tickers that do not wait for them") {
  const auto folder = std::filesystem::temp_directory_path() / ("lagom-offloads-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::string file = folder / "file", fifo = folder / "fifo";
  const std::string content(1'000'000, 'x');
  std::ofstream(file) << content;
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);

  {
    lagom::runtime rt(scenario_options(2));
    std::atomic<bool> over{false};
    std::vector<lagom::fiber> tickers;
    std::vector<long> ticks(50);
    for (long& mine : ticks) {
      tickers.push_back(rt.spawn([&over, &mine] {
        for (; !over; ++mine) lagom::this_fiber::sleep_for(5ms);
      }));
    }
    const auto read_all = [](const std::string& path) {
      return lagom::blocking([&] {
        std::ifstream in(path, std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(in), {});
      });
    };
    std::string of_file, of_null, of_fifo;
    std::thread writer([&] {
      std::ofstream out(fifo);
      for (int i = 0; i < 10; ++i) {
        out << i << std::flush;
        std::this_thread::sleep_for(50ms);
      }
    });
    const auto begin = clock::now();
    lagom::fiber a = rt.spawn([&] { of_file = read_all(file); });
    lagom::fiber b = rt.spawn([&] { of_null = read_all("/dev/null"); });
    lagom::fiber c = rt.spawn([&] { of_fifo = read_all(fifo); });
    for (lagom::fiber* f : {&a, &b, &c}) f->join();
    const double took = milliseconds(clock::now() - begin);
    over = true;
    for (lagom::fiber& f : tickers) f.join();
    writer.join();
    CHECK(of_file == content);
    CHECK(of_null.empty());
    CHECK(of_fifo == "0123456789");
    CHECK(took >= 400);
    // A worker held by a read would have stopped its tickers for nearly all of that time.
    CHECK(*std::min_element(ticks.begin(), ticks.end()) >= static_cast<long>(took / 5 / 4));
  }
  std::filesystem::remove_all(folder);
}
