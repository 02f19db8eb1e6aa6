// SPDX-License-Identifier: BSL-1.0
// What a runtime tells about itself: dump, the deadlock report, statistics.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "support/fixture.hpp"

using namespace lagom::tests;

namespace {

std::string dump_of(const lagom::runtime& rt) {
  std::ostringstream out;
  rt.dump(out);
  return out.str();
}

class log_book {
 public:
  void add(std::string_view line) {
    const std::lock_guard hold(lock_);
    text_.append(line);
    text_ += '\n';
  }
  std::string text() const {
    const std::lock_guard hold(lock_);
    return text_;
  }

 private:
  mutable std::mutex lock_;
  std::string text_;
};

bool contains(const std::string& text, const std::string& pattern) { return std::regex_search(text, std::regex(pattern)); }

bool all_parked(const std::vector<lagom::fiber>& fibers) {
  return std::all_of(fibers.begin(), fibers.end(),
                     [](const auto& f) { return f.stats().state == lagom::fiber_state::parked; });
}

}  // namespace

TEST_CASE("dump names every fiber with its state and what it waits for") {
  for_each_worker_count([](lagom::runtime& rt) {
    lagom::event never_set, up;
    lagom::mutex held;
    lagom::channel<int> empty(1);
    held.lock();
    std::vector<lagom::fiber> fibers;
    fibers.push_back(rt.spawn({.name = "sleeper"}, [] { (void)error_of([] { lagom::this_fiber::sleep_for(1h); }); }));
    fibers.push_back(rt.spawn({.name = "waiter"}, [&] { (void)error_of([&] { never_set.wait(); }); }));
    fibers.push_back(rt.spawn({.name = "locker"}, [&] { const std::lock_guard hold(held); }));
    fibers.push_back(rt.spawn({.name = "reader"}, [&] { (void)error_of([&] { empty.receive(); }); }));
    CHECK(becomes_true([&] { return all_parked(fibers); }, limit(5s)));
    std::atomic<bool> over{false};
    fibers.push_back(rt.spawn({.name = "runner"}, [&] {
      up.set();
      while (!over) {
      }
    }));
    up.wait();
    const std::string text = dump_of(rt);
    INFO(text);
    CHECK(contains(text, "lagom: " + std::to_string(rt.workers()) + " workers, 5 fibers"));
    CHECK(contains(text, "'sleeper': parked \\(sleep\\) since [0-9]+ us"));
    CHECK(contains(text, "'waiter': parked \\(event\\)"));
    CHECK(contains(text, "'locker': parked \\(mutex\\)"));
    CHECK(contains(text, "'reader': parked \\(channel"));
    CHECK(contains(text, "fiber " + std::to_string(fibers[4].get_id().value()) + " 'runner': running"));
    over = true;
    held.unlock();
    for (lagom::fiber& f : fibers) {
      f.request_stop();
      f.join();
    }
    CHECK(contains(dump_of(rt), " 0 fibers"));
  });
}

TEST_CASE("a fiber that waits for what nobody does is reported, once") {
  for (const unsigned workers : {1u, 4u}) {
    log_book book;
    lagom::runtime_options options;
    options.workers = workers;
    options.log = [&](std::string_view line) { book.add(line); };
    lagom::runtime rt(options);
    lagom::event nobody_sets;
    lagom::fiber f = rt.spawn({.name = "forgotten"}, [&] { (void)error_of([&] { nobody_sets.wait(); }); });
    CHECK(becomes_true([&] { return contains(book.text(), "deadlock"); }, limit(3s)));
    CHECK(becomes_true([&] { return contains(book.text(), "'forgotten': parked \\(event\\)"); }, limit(1s)));
    std::this_thread::sleep_for(1500ms);
    const std::string text = book.text();
    CHECK(text.find("deadlock") == text.rfind("deadlock"));
    // A thread outside may still come.
    f.request_stop();
    f.join();
  }
}

TEST_CASE("no deadlock is reported while a timer is armed, a blocking call runs, or nobody lives") {
  log_book book;
  lagom::runtime_options options;
  options.workers = 2;
  options.log = [&](std::string_view line) { book.add(line); };
  lagom::runtime rt(options);
  std::this_thread::sleep_for(1500ms);
  lagom::event nobody_sets;
  rt.run([&] { CHECK_FALSE(nobody_sets.wait_for(1500ms)); });
  // A call of the pool will come back.
  rt.run([] { lagom::blocking([] { std::this_thread::sleep_for(1500ms); }); });
  CHECK(book.text().empty());
}

TEST_CASE("the destructor says for whom it waits") {
  log_book book;
  lagom::mutex held;
  held.lock();
  {
    lagom::runtime_options options;
    options.workers = 1;
    options.log = [&](std::string_view line) { book.add(line); };
    std::thread helper;
    lagom::runtime rt(options);
    rt.spawn_detached({.name = "stubborn"}, [&] { const std::lock_guard hold(held); });
    helper = std::thread([&] {
      becomes_true([&] { return contains(book.text(), "still waiting"); }, limit(10s));
      held.unlock();
    });
    rt.request_stop();
    helper.detach();
  }
  CHECK(contains(book.text(), "still waiting for fiber [0-9]+ 'stubborn' \\(parked, mutex\\)"));
}

TEST_CASE("statistics of fibers: time, waits, switches") {
  for_each_worker_count([](lagom::runtime& rt) {
    // Alone and never switched: its time runs all the same.
    std::atomic<bool> over{false};
    lagom::fiber alone = rt.spawn([&] {
      while (!over) lagom::this_fiber::checkpoint();
    });
    std::this_thread::sleep_for(20ms);
    const lagom::fiber_stats early = alone.stats();
    std::this_thread::sleep_for(20ms);
    const lagom::fiber_stats late = alone.stats();
    over = true;
    CHECK(late.cpu_time > early.cpu_time);
    CHECK(late.cpu_time - early.cpu_time >= 10ms);
    CHECK(late.state == lagom::fiber_state::running);
    CHECK(late.worker < rt.workers());
    CHECK(becomes_true([&] { return alone.stats().state == lagom::fiber_state::exited; }, limit(5s)));
    alone.join();

    lagom::fiber_stats slept, after;
    rt.spawn([&] {
        for (int i = 0; i < 10; ++i) lagom::this_fiber::sleep_for(500us);
        slept = lagom::this_fiber::stats();
        const auto until = clock::now() + 3ms;
        while (clock::now() < until) {
        }
        after = lagom::this_fiber::stats();
      }).join();
    CHECK(slept.switches_voluntary == 10);
    CHECK(slept.cpu_time < 5ms * 10);
    CHECK(after.cpu_time - slept.cpu_time >= 2900us);
    CHECK(after.wait_max <= after.wait_time);
  });
}

TEST_CASE("the time of several fibers is not more than the worker had") {
  lagom::runtime rt({.workers = 1});
  const auto begin = clock::now();
  std::atomic<bool> over{false};
  std::vector<lagom::fiber> fibers;
  for (int i = 0; i < 5; ++i) {
    fibers.push_back(rt.spawn([&] {
      while (!over) lagom::this_fiber::checkpoint();
    }));
  }
  std::this_thread::sleep_for(100ms);
  over = true;
  std::chrono::nanoseconds spent{0};
  CHECK(rt.drain_for(limit(5s)));
  const auto whole = clock::now() - begin;
  for (lagom::fiber& f : fibers) {
    const lagom::fiber_stats s = f.stats();
    spent += s.cpu_time;
    CHECK(s.cpu_time > 0ns);
    CHECK(s.switches_involuntary > 0);
    CHECK(s.wait_time > 0ns);
    f.join();
  }
  CHECK(spent <= whole);
  CHECK(spent >= 90ms);
}

TEST_CASE("statistics of the runtime add up") {
  for_each_worker_count([](lagom::runtime& rt) {
    const auto before = rt.stats();
    CHECK(before.workers.size() == rt.workers());
    CHECK(before.fibers == 0);
    lagom::event go;
    std::vector<lagom::fiber> fibers;
    for (int i = 0; i < 10; ++i) fibers.push_back(rt.spawn([&] { go.wait(); }));
    CHECK(rt.stats().fibers == 10);
    CHECK(rt.stats().spawned == before.spawned + 10);
    CHECK(becomes_true([&] { return all_parked(fibers); }, limit(5s)));
    go.set();
    for (lagom::fiber& f : fibers) f.join();
    CHECK(becomes_true([&] { return rt.stats().finished == before.finished + 10; }, limit(5s)));
    const auto after = rt.stats();
    CHECK(after.fibers == 0);
    CHECK(after.uncaught == 0);
    CHECK(after.wake_latency.count() >= 10);
    CHECK(after.wake_latency.max() >= after.wake_latency.percentile(50));
    for (unsigned i = 0; i < rt.workers(); ++i) {
      const lagom::worker_stats& w = after.workers[i];
      CHECK(w.index == i);
      CHECK_FALSE(w.cpus.empty());
      CHECK(w.busy >= 0ns);
      CHECK(w.idle >= 0ns);
      CHECK(w.queued == 0);
    }
  });
}
