// SPDX-License-Identifier: BSL-1.0
// A program that has a thread pool already takes fibers in, piece by piece. Threads of the pool spawn fibers and wait for
// their results; threads and fibers share a mutex, a channel and a semaphore, which know both: a fiber that waits gives
// its worker to others, a thread that waits sleeps. Prints what was done by whom.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <lagom/lagom.hpp>

namespace {

// The existing thread pool. Its queue could be anything; here it is a channel, since that works for threads as well.
class thread_pool {
 public:
  explicit thread_pool(int size) : jobs_(64) {
    for (int i = 0; i < size; ++i) {
      threads_.emplace_back([this] {
        for (std::function<void()>& job : jobs_) job();
      });
    }
  }
  ~thread_pool() {
    jobs_.close();
    for (std::thread& t : threads_) t.join();
  }
  void submit(std::function<void()> job) { jobs_.send(std::move(job)); }

 private:
  lagom::channel<std::function<void()>> jobs_;
  std::vector<std::thread> threads_;
};

}  // namespace

int main() {
  lagom::runtime runtime;
  long total = 0;           // guarded by the mutex, from both worlds
  lagom::mutex guard;
  lagom::wait_group done;
  lagom::counting_semaphore<> at_once(3);
  std::vector<long> of_threads, of_fibers;

  const auto add = [&](long amount, std::vector<long>& who) {
    at_once.acquire();
    {
      const std::lock_guard hold(guard);
      total += amount;
      who.push_back(amount);
    }
    at_once.release();
  };

  {
    thread_pool pool(3);
    for (long i = 1; i <= 100; ++i) {
      done.add(1);
      pool.submit([&, i] {
        add(i, of_threads);
        // From outside a runtime is named. A future gives the result to any thread or fiber.
        lagom::future<long> square = runtime.async([&, i] {
          add(i, of_fibers);
          return i * i;
        });
        // post() never waits and never throws, for callbacks of other libraries.
        const bool posted = runtime.post([&, i] {
          add(i, of_fibers);
          done.done();
        });
        if (!posted) done.done();
        if (square.get() != i * i) std::abort();
      });
    }
    done.wait();
  }
  // And a fiber may use the pool: it waits for a promise that a thread fulfils.
  lagom::promise<int> answer_of_thread;
  int answer = 0;
  {
    thread_pool pool(1);
    answer = runtime.run([&] {
      pool.submit([&] { answer_of_thread.set_value(42); });
      return answer_of_thread.get_future().get();
    });
  }

  std::printf("threads added %zu numbers, fibers %zu; total %ld; a thread told a fiber %d\n", of_threads.size(), of_fibers.size(), total,
              answer);
  return total == 3 * 5050 && of_threads.size() == 100 && of_fibers.size() == 200 && answer == 42 ? 0 : 1;
}
