// SPDX-License-Identifier: BSL-1.0
// Calls that hold their thread, such as reading a file, from fibers: lagom::blocking() runs them on a pool of threads of
// its own while the worker goes on. A ticker shows that it does: with one worker, nothing but the pool reads. Prints the
// bytes read, what went wrong with a file that is not there, and the ticks counted meanwhile.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <lagom/lagom.hpp>

using namespace std::chrono_literals;

namespace {

// An ordinary function that knows nothing of fibers. Slow on purpose, as a disk may be.
std::string read_file(const std::string& path) {
  std::this_thread::sleep_for(20ms);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::system_error(std::make_error_code(std::errc::no_such_file_or_directory), path);
  return {std::istreambuf_iterator<char>(in), {}};
}

long count_ticks(std::stop_token stop) {
  long ticks = 0;
  for (; !stop.stop_requested(); ++ticks) lagom::this_fiber::yield();
  return ticks;
}

}  // namespace

int main(int, char** argv) {
  lagom::runtime_options options;
  options.workers = 1;
  options.max_blocking_threads = 4;  // more calls wait their turn; their fibers wait, not the worker
  lagom::runtime runtime(options);

  std::size_t bytes = 0;
  std::string error;
  long ticks = 0;
  runtime.run([&] {
    lagom::fiber ticker = lagom::spawn([&](std::stop_token stop) { ticks = count_ticks(stop); });
    std::vector<lagom::future<std::size_t>> sizes;
    const std::string self = argv[0];
    for (int i = 0; i < 8; ++i) {
      sizes.push_back(lagom::async([&self] {
        // The result comes back as if the function had been called here, and so does an exception. What it refers to
        // may be on this fiber's stack: the fiber waits for it.
        const std::string text = lagom::blocking([&] { return read_file(self); });
        return text.size();
      }));
    }
    for (auto& size : sizes) bytes = size.get();
    try {
      // Low priority for the operating system, too: for a backup, say.
      lagom::blocking({.os_policy = lagom::policy::batch}, [] { return read_file("no such file"); });
    } catch (const std::system_error& e) {
      error = e.code().message();
    }
    ticker.request_stop();
    ticker.join();
  });
  std::printf("read %zu bytes, eight times; a file that is not there: %s\n", bytes, error.c_str());
  std::printf("meanwhile the only worker ticked %ld times\n", ticks);
  return bytes > 1000 && !error.empty() && ticks > 0 ? 0 : 1;
}
