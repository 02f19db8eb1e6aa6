// SPDX-License-Identifier: BSL-1.0
// From Boost.Fiber to lagom: migrate_from_boost_fiber_before.cpp with lagom. Above each line that changed stands what it
// was, after "was:". Prints the sum of squares, three ways.
//
// What to look for in a program of one's own, since it does not show as an error:
//  - Fibers run on several threads, and one may go on on another than it began on. Data that only fibers of one thread
//    touched needs a lock now, or runtime_options::workers = 1, or attributes::pinned.
//  - thread_local values belong to the thread, not the fiber: docs/thread-locals.md.
//  - ~fiber() asks the fiber to stop and joins, where Boost.Fiber terminates the process.
//  - A fiber is begun by its worker, as launch::post; there is no launch::dispatch. yield() has the same meaning, but
//    long loops want this_fiber::checkpoint(), which gives way only when the slice is used up.
//  - A scheduling algorithm of one's own becomes attributes (nice, slice, policy, affinity), for each fiber.
#include <chrono>
#include <cstdio>
#include <mutex>
#include <vector>

// was: #include <boost/fiber/all.hpp>
#include <lagom/lagom.hpp>

// was: namespace fibers = boost::fibers;
namespace fibers = lagom;

struct tally {
  fibers::mutex guard;
  fibers::condition_variable changed;
  long sum = 0;
  int finished = 0;
};

int main() {
  constexpr int workers = 4, numbers = 1000;
  tally t;
  // was: fibers::buffered_channel<int> queue(16);     (unbuffered_channel: capacity 0)
  fibers::channel<int> queue(16);
  // was: fibers::fiber_specific_ptr<long> own_sum;
  fibers::fiber_local<long> own_sum;

  // was: nothing, or fibers::use_scheduling_algorithm<…>(…) on each thread
  lagom::runtime runtime;
  std::vector<fibers::fiber> pool;
  for (int i = 0; i < workers; ++i) {
    // was: pool.emplace_back([&] {                     (inside a fiber, pool.emplace_back works too)
    pool.push_back(runtime.spawn([&] {
      // was: own_sum.reset(new long(0));               (made at the first look)
      int n = 0;
      // was: while (queue.pop(n) == fibers::channel_op_status::success) …
      while (queue.receive(n) == fibers::channel_status::ok) *own_sum += static_cast<long>(n) * n;
      std::unique_lock<fibers::mutex> hold(t.guard);
      t.sum += *own_sum;
      ++t.finished;
      t.changed.notify_one();
    }));
  }
  // was: fibers::fiber producer(fibers::launch::post, [&] {
  fibers::fiber producer = runtime.spawn([&] {
    for (int n = 1; n <= numbers; ++n) {
      // was: queue.push(n);
      queue.send(n);
      // was: boost::this_fiber::sleep_for(…)
      if (n % 100 == 0) lagom::this_fiber::sleep_for(std::chrono::microseconds(100));
    }
    queue.close();
  });

  // was: fibers::future<long> expected = fibers::async([] {
  fibers::future<long> expected = runtime.async([] {
    long sum = 0;
    for (long n = 1; n <= numbers; ++n) {
      sum += n * n;
      // was: boost::this_fiber::yield();
      lagom::this_fiber::checkpoint();
    }
    return sum;
  });

  {
    // main() is a plain thread. The same calls work: it sleeps where a fiber would give way.
    std::unique_lock<fibers::mutex> hold(t.guard);
    t.changed.wait(hold, [&] { return t.finished == workers; });
  }
  producer.join();
  for (fibers::fiber& f : pool) f.join();
  const long formula = numbers * (numbers + 1L) * (2L * numbers + 1) / 6;
  const long counted = expected.get();
  std::printf("%ld %ld %ld\n", t.sum, counted, formula);
  return t.sum == formula && counted == formula ? 0 : 1;
}
