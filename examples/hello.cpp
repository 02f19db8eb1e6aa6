// SPDX-License-Identifier: BSL-1.0
// The smallest program: a runtime, three fibers, their results. Prints one line per fiber and their sum.
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <lagom/lagom.hpp>

int main() {
  lagom::runtime runtime;  // a worker thread per CPU that this process may use

  // run() makes its function a fiber, waits for it, and hands back what it returns.
  const int sum = runtime.run([] {
    std::vector<int> results(3);
    std::vector<lagom::fiber> fibers;
    for (int i = 0; i < 3; ++i) {
      // A fiber is joined as a std::jthread is. It may run on any worker.
      fibers.push_back(lagom::spawn([i, &results] {
        std::printf("hello from fiber %d on worker %u\n", i, lagom::this_fiber::worker_index());
        results[static_cast<std::size_t>(i)] = i + 1;
      }));
    }
    for (lagom::fiber& f : fibers) f.join();
    return std::accumulate(results.begin(), results.end(), 0);
  });
  std::printf("1 + 2 + 3 = %d\n", sum);

  // An exception that leaves a fiber comes out of its join().
  std::string caught;
  runtime.run([&] {
    lagom::fiber f = lagom::spawn([] { throw std::runtime_error("on purpose"); });
    try {
      f.join();
    } catch (const std::runtime_error& e) {
      caught = e.what();
    }
  });
  std::printf("caught: %s\n", caught.c_str());
  return sum == 6 && caught == "on purpose" ? 0 : 1;
}
