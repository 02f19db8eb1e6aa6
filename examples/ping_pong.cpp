// SPDX-License-Identifier: BSL-1.0
// Two fibers send a number to and fro through two channels; each adds one. On one worker a round is two switches and no
// system call. Prints the time of a round.
#include <chrono>
#include <cstdio>

#include <lagom/lagom.hpp>

int main() {
  constexpr long rounds = 200'000;
  lagom::runtime_options options;
  options.workers = 1;
  lagom::runtime runtime(options);

  const auto begin = std::chrono::steady_clock::now();
  const long last = runtime.run([] {
    lagom::channel<long> ping(1), pong(1);
    lagom::fiber partner = lagom::spawn([&] {
      // Ends when ping is closed and drained.
      for (const long ball : ping) pong.send(ball + 1);
    });
    long ball = 0;
    for (long i = 0; i < rounds; ++i) {
      ping.send(ball + 1);
      if (pong.receive(ball) != lagom::channel_status::ok) break;
    }
    ping.close();
    partner.join();
    return ball;
  });
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;

  std::printf("%ld rounds, %.0f ns each; the ball says %ld\n", rounds, spent.count() / rounds, last);
  return last == 2 * rounds ? 0 : 1;
}
