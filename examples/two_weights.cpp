// SPDX-License-Identifier: BSL-1.0
// Two fibers that never have enough, one of nice 0 and one of nice 5, share one worker. The weights are Linux's: 1024 and
// 335, so the shares should be 75.3 % and 24.7 %. Prints what they got.
#include <chrono>
#include <cmath>
#include <cstdio>

#include <lagom/lagom.hpp>

using namespace std::chrono_literals;

namespace {

// Computes without end, but asks now and then whether somebody else should run: a fiber cannot be interrupted.
void hog(std::stop_token stop) {
  volatile unsigned work = 0;
  while (!stop.stop_requested()) {
    for (int i = 0; i < 10'000; ++i) work = work + 1;
    lagom::this_fiber::checkpoint();
  }
}

}  // namespace

int main() {
  lagom::runtime_options options;
  options.workers = 1;
  lagom::runtime runtime(options);

  lagom::attributes heavy, light;
  heavy.name = "heavy";
  light.name = "light";
  light.nice = 5;
  lagom::fiber a = runtime.spawn(heavy, hog);
  lagom::fiber b = runtime.spawn(light, hog);
  // A plain thread can sleep here too.
  lagom::this_fiber::sleep_for(1s);
  const double heavy_time = std::chrono::duration<double>(a.stats().cpu_time).count();
  const double light_time = std::chrono::duration<double>(b.stats().cpu_time).count();
  a.request_stop();
  b.request_stop();
  a.join();
  b.join();

  const double share = 100 * heavy_time / (heavy_time + light_time);
  const double expected = 100.0 * 1024 / (1024 + 335);
  std::printf("fiber    nice  weight  expected    got\n");
  std::printf("heavy       0    1024    %5.1f %%  %5.1f %%\n", expected, share);
  std::printf("light       5     335    %5.1f %%  %5.1f %%\n", 100 - expected, 100 - share);
  return std::abs(share - expected) < 3 ? 0 : 1;
}
