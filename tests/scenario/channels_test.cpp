// SPDX-License-Identifier: BSL-1.0
// Channels: what is accepted is received, once; whoever arrives at the moment of the close is told.
#include <numeric>

#include "scenario.hpp"

using namespace lagom::tests;

namespace {

constexpr int producers = 4, items = 1000, late_comers = 16;

struct fair {
  lagom::channel<int> goods{2};
  std::atomic<int> producing{producers};
  std::atomic<int> told{0};
  verdict v;
};

// Counts what was accepted in `accepted`; the last producer closes.
void produce(fair& f, int me, std::vector<char>& accepted) {
  for (int i = 0; i < items; ++i) {
    const lagom::channel_status status = f.goods.try_send(me * items + i);
    f.v.expect(status == lagom::channel_status::ok || status == lagom::channel_status::full, "try_send: neither ok nor full");
    if (status == lagom::channel_status::ok) accepted[static_cast<std::size_t>(i)] = 1;
    if (i % 16 == 0) lagom::this_fiber::yield();
  }
  if (--f.producing == 0) f.goods.close();
}

void consume(fair& f, std::vector<int>& received, bool use_status) {
  if (use_status) {
    int item = 0;
    lagom::channel_status status = lagom::channel_status::ok;
    while ((status = f.goods.receive(item)) == lagom::channel_status::ok) received.push_back(item);
    f.v.expect(status == lagom::channel_status::closed, "receive ended, but not because of the close");
  } else {
    for (const int item : f.goods) received.push_back(item);
  }
}

// Comes around the moment of the close, on either side.
void come_late(fair& f, int me, std::vector<int>& received, std::atomic<long>& accepted_late) {
  for (;;) {
    if (me % 2 == 0) {
      int item = 0;
      const auto status = f.goods.receive(item);
      if (status == lagom::channel_status::closed) break;
      if (f.v.expect(status == lagom::channel_status::ok, "receive: neither ok nor closed")) received.push_back(item);
    } else {
      const auto status = f.goods.send(producers * items + me);
      if (status == lagom::channel_status::closed) break;
      if (f.v.expect(status == lagom::channel_status::ok, "send: neither ok nor closed")) ++accepted_late;
      lagom::this_fiber::yield();
    }
  }
  ++f.told;
}

void hold_fair(lagom::runtime& rt) {
  fair f;
  std::vector<std::vector<char>> accepted(producers, std::vector<char>(items));
  std::vector<std::vector<int>> received(3 + late_comers);
  std::atomic<long> accepted_late{0};
  std::vector<lagom::fiber> fibers;
  for (std::size_t i = 0; i < 3; ++i) fibers.push_back(rt.spawn([&, i] { consume(f, received[i], i % 2 == 0); }));
  for (int i = 0; i < late_comers; ++i) {
    fibers.push_back(rt.spawn([&, i] { come_late(f, i, received[static_cast<std::size_t>(3 + i)], accepted_late); }));
  }
  for (int i = 0; i < producers; ++i) fibers.push_back(rt.spawn([&, i] { produce(f, i, accepted[static_cast<std::size_t>(i)]); }));
  for (lagom::fiber& one : fibers) one.join();

  CHECK(f.told == late_comers);
  std::vector<int> times(producers * items);
  long late = 0;
  for (const auto& some : received) {
    for (const int item : some) {
      if (item >= producers * items) {
        ++late;
      } else {
        ++times[static_cast<std::size_t>(item)];
      }
    }
  }
  CHECK(late == accepted_late);
  long wrong = 0, sum = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    wrong += times[i] != accepted[i / items][i % items];
    sum += times[i];
  }
  CHECK(wrong == 0);
  CHECK(sum > 0);
}

}  // namespace

TEST_CASE("29: accepted is received, each once, and everybody learns of the close") {
  for_each_worker_count(
      [](lagom::runtime& rt) {
        for (long i = 0; i < count_of(150, 5000); ++i) hold_fair(rt);
      },
      {}, {1, 2, 4});
}
