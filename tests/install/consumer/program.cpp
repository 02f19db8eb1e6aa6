// SPDX-License-Identifier: BSL-1.0
// What somebody writes who has just installed lagom: a bit of everything, so that the link would miss what is not there.
#include <lagom/lagom.hpp>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <sstream>

namespace {

int sum_over_channel() {
  lagom::channel<int> numbers(4);
  lagom::fiber producer([&] {
    for (int i = 1; i <= 100; ++i) numbers.send(i);
    numbers.close();
  });
  int sum = 0;
  for (int n : numbers) sum += n;
  producer.join();
  return sum;
}

int count_in_scope(lagom::runtime& rt) {
  lagom::mutex guard;
  int count = 0;
  rt.run([&] {
    lagom::scope all;
    for (int i = 0; i < 10; ++i) {
      all.spawn([&] {
        const std::lock_guard hold(guard);
        ++count;
        lagom::this_fiber::yield();
      });
    }
    all.join();
  });
  return count;
}

bool catches_our_errors() {
  try {
    lagom::fiber().join();
  } catch (const std::system_error& e) {
    return e.code() == lagom::errc::not_joinable;
  }
  return false;
}

}  // namespace

int main() {
  char headers[32];
  std::snprintf(headers, sizeof headers, "%d.%d.%d", LAGOM_VERSION_MAJOR, LAGOM_VERSION_MINOR, LAGOM_VERSION_PATCH);
  lagom::runtime rt;
  const int sum = rt.run(sum_over_channel);
  const int count = count_in_scope(rt);
  std::ostringstream text;
  rt.dump(text);
  const bool right = std::strcmp(headers, lagom::version()) == 0 && sum == 5050 && count == 10 && catches_our_errors() &&
                     text.str().find("0 fibers") != std::string::npos;
  std::printf("lagom %s: %s\n", lagom::version(), right ? "right" : "wrong");
  return right ? 0 : 1;
}
