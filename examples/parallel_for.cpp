// SPDX-License-Identifier: BSL-1.0
// A parallel_for from a scope: the range is cut into pieces, each piece is a fiber, the scope joins them and rethrows
// what the first of them throws. Counts primes with it, and checks the count against one fiber's.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <system_error>

#include <lagom/lagom.hpp>

namespace {

// Calls body(first, last) for pieces of [first, last), on as many fibers as there are pieces. A piece should take
// some ten microseconds or more: a fiber costs well under one.
template <class Body>
void parallel_for(long first, long last, long piece, Body body) {
  lagom::scope all;  // on_error::cancel_all: after an exception the others are asked to stop
  try {
    for (long from = first; from < last; from += piece) {
      all.spawn([&body, from, to = std::min(from + piece, last)] { body(from, to); });
    }
  } catch (const std::system_error& e) {
    if (e.code() != lagom::errc::stopped) throw;
    // A piece has failed, and the scope takes no more: join() tells why.
  }
  all.join();
}

bool is_prime(long n) {
  if (n < 2) return false;
  for (long d = 2; d * d <= n; ++d) {
    if (n % d == 0) return false;
  }
  return true;
}

long count_primes(long from, long to) {
  long found = 0;
  for (long n = from; n < to; ++n) {
    found += is_prime(n);
    lagom::this_fiber::checkpoint();  // a long loop lets others run when its slice is used up
  }
  return found;
}

}  // namespace

int main() {
  constexpr long limit = 200'000;
  lagom::runtime runtime;
  std::atomic<long> found{0};
  long alone = 0;
  std::string caught;
  runtime.run([&] {
    parallel_for(0, limit, 2'000, [&](long from, long to) { found += count_primes(from, to); });
    alone = count_primes(0, limit);
    try {
      parallel_for(0, 100, 10, [](long from, long) {
        if (from == 50) throw std::out_of_range("piece 50");
      });
    } catch (const std::out_of_range& e) {
      caught = e.what();
    }
  });
  std::printf("%ld primes below %ld; one fiber alone counts %ld\n", found.load(), limit, alone);
  std::printf("caught: %s\n", caught.c_str());
  return found == alone && alone == 17'984 && caught == "piece 50" ? 0 : 1;
}
