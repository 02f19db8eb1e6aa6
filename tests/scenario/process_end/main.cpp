// SPDX-License-Identifier: BSL-1.0
// usage: process_end return|exit|exit-on-thread
// Ends with 100 fibers asleep: main returns, or a fiber or a thread calls exit(3).
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>

#include "globals.hpp"

using namespace std::chrono_literals;

int main(int, char** arguments) {
  for (int i = 0; i < 100; ++i) {
    shared_runtime.spawn_detached([] {
      try {
        lagom::this_fiber::sleep_for(1h);
      } catch (const std::system_error&) {
      }
    });
  }
  if (std::strcmp(arguments[1], "exit") == 0) {
    shared_runtime.spawn_detached([] { std::exit(3); });
    std::this_thread::sleep_for(1h);
  }
  if (std::strcmp(arguments[1], "exit-on-thread") == 0) {
    std::thread([] { std::exit(3); }).detach();
    std::this_thread::sleep_for(1h);
  }
  return 0;
}
