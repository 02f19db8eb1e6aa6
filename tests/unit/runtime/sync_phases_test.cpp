// SPDX-License-Identifier: BSL-1.0
// latch, barrier, call_once
#include <stdexcept>

#include <lagom/barrier.hpp>
#include <lagom/call_once.hpp>
#include <lagom/latch.hpp>

#include "sync_crowd.hpp"

using namespace sync_test;

TEST_CASE("latch: passes at zero, for ever") {
  for (const setting& s : settings) {
    lagom::latch l(10);
    std::atomic<int> arrived{0};
    crowd c(s);
    c.start_many(8, [&](int i) {
      if (i % 2) nap(100us);
      ++arrived;
      l.count_down();
    });
    c.start_many(40, [&](int) {
      l.wait();
      c.expect(arrived == 9, "too early");
    });
    c.start([&] {
      ++arrived;
      l.arrive_and_wait(2);
      c.expect(l.try_wait() && arrived == 9, "too early");
    });
    c.finish();
    l.wait();
    CHECK(l.try_wait());
  }
  lagom::latch open(0);
  open.wait();
  CHECK_FALSE(lagom::latch(1).try_wait());
}

TEST_CASE("barrier: nobody is a phase ahead, and the completion runs once per phase") {
  for (const setting& s : settings) {
    constexpr int group = 6;
    const int phases = rounds(300);
    std::atomic<int> arrivals{0};
    int completed = 0;  // not atomic: ordered by the barrier
    std::atomic<int> wrong{0};
    auto completion = [&]() noexcept {
      ++completed;
      wrong += arrivals != completed * group;
    };
    lagom::barrier meeting(group, completion);
    crowd c(s);
    c.start_many(group, [&](int i) {
      for (int p = 1; p <= phases; ++p) {
        if ((i + p) % 5 == 0) lagom::this_fiber::yield();
        ++arrivals;
        if (p % 2) {
          meeting.arrive_and_wait();
        } else {
          auto token = meeting.arrive();
          meeting.wait(std::move(token));
        }
        c.expect(completed >= p, "went on before the completion");
        c.expect(arrivals >= p * group, "went on before all had arrived");
      }
    });
    c.finish();
    CHECK(completed == phases);
    CHECK(wrong == 0);
  }
}

TEST_CASE("barrier: who drops out is not waited for") {
  for (const setting& s : settings) {
    lagom::barrier<> meeting(4);
    std::atomic<int> phases{0};
    crowd c(s);
    c.start_many(4, [&](int i) {
      for (int p = 0; p < 5; ++p) {
        if (i == p) return meeting.arrive_and_drop();
        meeting.arrive_and_wait();
        ++phases;
      }
    });
    c.finish();
    CHECK(phases == 3 + 2 + 1);
  }
}

TEST_CASE("call_once: once, and everybody sees what it has done") {
  for (const setting& s : settings) {
    lagom::once_flag flag;
    int calls = 0, value = 0;
    crowd c(s);
    c.start_many(20, [&](int i) {
      lagom::call_once(
          flag,
          [&](int v) {
            ++calls;
            nap(1ms);  // the others wait meanwhile
            value = v;
          },
          i + 1);
      c.expect(value != 0, "returned before it was done");
    });
    c.finish();
    CHECK(calls == 1);
  }
}

TEST_CASE("call_once: an exception goes to its caller and the next one tries") {
  for (const setting& s : settings) {
    lagom::once_flag flag;
    std::atomic<int> calls{0}, caught{0}, returned{0};
    crowd c(s);
    c.start_many(10, [&](int) {
      try {
        lagom::call_once(flag, [&] {
          const int n = ++calls;
          lagom::this_fiber::yield();
          if (n <= 3) throw std::runtime_error("not yet");
        });
        ++returned;
      } catch (const std::runtime_error&) {
        ++caught;
      }
    });
    c.finish();
    CHECK(calls == 4);
    CHECK(caught == 3);
    CHECK(returned == 7);
  }
}
