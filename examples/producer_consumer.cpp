// SPDX-License-Identifier: BSL-1.0
// Producers put numbers into a channel of small capacity, consumers take them out: who is faster waits for the others,
// and no queue grows. The last producer to end closes the channel, which ends the consumers' loops. Prints what each
// consumer got, and checks that every number arrived once.
#include <cstdio>
#include <vector>

#include <lagom/lagom.hpp>

namespace {

constexpr int producers = 4, consumers = 3, numbers_each = 2000;

struct taken {
  long count = 0, sum = 0;
};

void produce(lagom::channel<int>& numbers, int from) {
  for (int i = 0; i < numbers_each; ++i) {
    // Waits while the channel is full. The status says whether the number was taken over.
    if (numbers.send(from + i) != lagom::channel_status::ok) return;
  }
}

taken consume(lagom::channel<int>& numbers) {
  taken mine;
  for (const int n : numbers) {  // ends when the channel is closed and empty
    ++mine.count;
    mine.sum += n;
  }
  return mine;
}

}  // namespace

int main() {
  lagom::runtime runtime;
  const std::vector<taken> results = runtime.run([] {
    lagom::channel<int> numbers(16);
    std::vector<lagom::future<taken>> at_work;
    for (int c = 0; c < consumers; ++c) at_work.push_back(lagom::async([&] { return consume(numbers); }));
    {
      lagom::scope all;  // ends when all in it have ended
      for (int p = 0; p < producers; ++p) all.spawn([&numbers, p] { produce(numbers, p * numbers_each); });
      all.join();
    }
    numbers.close();
    std::vector<taken> done;
    for (auto& c : at_work) done.push_back(c.get());
    return done;
  });

  taken all;
  for (const taken& one : results) {
    std::printf("a consumer took %ld numbers\n", one.count);
    all.count += one.count;
    all.sum += one.sum;
  }
  constexpr long n = producers * numbers_each;
  std::printf("together %ld of %ld, sum %ld\n", all.count, n, all.sum);
  return all.count == n && all.sum == n * (n - 1) / 2 ? 0 : 1;
}
