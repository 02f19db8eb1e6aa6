// SPDX-License-Identifier: BSL-1.0
// A small pipeline with Boost.Fiber; migrate_from_boost_fiber.cpp is the same program with lagom, line by line. Built only
// where Boost.Fiber is installed. Prints the sum of squares, three ways.
#include <chrono>
#include <cstdio>
#include <mutex>
#include <vector>

#include <boost/fiber/all.hpp>

namespace fibers = boost::fibers;

struct tally {
  fibers::mutex guard;
  fibers::condition_variable changed;
  long sum = 0;
  int finished = 0;
};

int main() {
  constexpr int workers = 4, numbers = 1000;
  tally t;
  fibers::buffered_channel<int> queue(16);
  fibers::fiber_specific_ptr<long> own_sum;

  // Fibers run on the thread that made them. Other threads would each need a scheduler:
  // fibers::use_scheduling_algorithm<fibers::algo::work_stealing>(thread_count).
  std::vector<fibers::fiber> pool;
  for (int i = 0; i < workers; ++i) {
    pool.emplace_back([&] {
      own_sum.reset(new long(0));
      int n = 0;
      while (queue.pop(n) == fibers::channel_op_status::success) *own_sum += static_cast<long>(n) * n;
      std::unique_lock<fibers::mutex> hold(t.guard);
      t.sum += *own_sum;
      ++t.finished;
      t.changed.notify_one();
    });
  }
  fibers::fiber producer(fibers::launch::post, [&] {
    for (int n = 1; n <= numbers; ++n) {
      queue.push(n);
      if (n % 100 == 0) boost::this_fiber::sleep_for(std::chrono::microseconds(100));
    }
    queue.close();
  });

  fibers::future<long> expected = fibers::async([] {
    long sum = 0;
    for (long n = 1; n <= numbers; ++n) {
      sum += n * n;
      boost::this_fiber::yield();
    }
    return sum;
  });

  {
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
