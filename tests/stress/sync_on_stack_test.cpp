// SPDX-License-Identifier: BSL-1.0
// A primitive on the waiter's stack is gone when the waiter returns: nobody who woke it may touch it then.
#include <cstring>

#include "unit/runtime/sync_crowd.hpp"

using namespace sync_test;

namespace {

// A place for an address that one side offers and the other side takes.
template <class T>
class exchange_place {
 public:
  void offer(T* p) {
    place_ = p;
    offered_.set();
  }
  T* take() {
    offered_.wait();
    return place_;
  }

 private:
  T* place_ = nullptr;
  lagom::event offered_{lagom::reset::automatic};
};

// Runs where the primitive was: whatever a late waker would write there shows in the pattern.
__attribute__((noinline)) bool pattern_stays() {
  volatile unsigned char frame[1024];
  for (auto& byte : frame) byte = 0xA5;
  for (const auto until = clock::now() + 5us; clock::now() < until;) {
  }
  for (auto& byte : frame) {
    if (byte != 0xA5) return false;
  }
  return true;
}

template <class Primitive, class... Arguments, class Wait, class Signal>
void wait_on_stack(const setting& s, int count, Wait wait, Signal signal) {
  exchange_place<Primitive> place;
  int ended = 0;
  crowd c(s);
  struct frames {
    // Not inlined: its frame is what pattern_stays() overwrites.
    static __attribute__((noinline)) void one(exchange_place<Primitive>& p, Wait& w) {
      Primitive primitive;
      p.offer(&primitive);
      w(primitive);
    }
  };
  c.start([&] {
    for (int i = 0; i < count; ++i) {
      frames::one(place, wait);
      c.expect(pattern_stays(), "somebody wrote into a frame that had ended");
      ++ended;
    }
    place.offer(nullptr);
  });
  c.start([&] {
    while (Primitive* p = place.take()) signal(*p);
  });
  c.finish();
  CHECK(ended == count);
}

struct zero_semaphore : lagom::binary_semaphore {
  zero_semaphore() : counting_semaphore(0) {}
};
struct group_of_one : lagom::wait_group {
  group_of_one() : wait_group(1) {}
};
struct automatic_event : lagom::event {
  automatic_event() : event(lagom::reset::automatic) {}
};
struct flag_with_condition {
  lagom::mutex m;
  lagom::condition_variable cv;
  bool set = false;
};
struct rendezvous : lagom::channel<int> {
  rendezvous() : channel(0) {}
};

}  // namespace

TEST_CASE("primitive on the waiter's stack") {
  for (const setting& s : settings) {
    // A round of OS threads, or one that chaos sends to a sleeping worker, takes a hundred times as long as one of fibers.
    const int count = rounds(s.who == members::fibers && !s.chaos ? 20000 : 1000);
    wait_on_stack<lagom::event>(
        s, count, [](auto& e) { e.wait(); }, [](auto& e) { e.set(); });
    wait_on_stack<automatic_event>(
        s, count, [](auto& e) { e.wait(); }, [](auto& e) { e.set(); });
    wait_on_stack<lagom::event>(
        s, count,
        [](auto& e) {
          while (!e.wait_for(1us)) {
          }
        },
        [](auto& e) { e.set(); });
    wait_on_stack<zero_semaphore>(
        s, count, [](auto& p) { p.acquire(); }, [](auto& p) { p.release(); });
    wait_on_stack<zero_semaphore>(
        s, count,
        [](auto& p) {
          while (!p.try_acquire_for(1us)) {
          }
        },
        [](auto& p) { p.release(); });
    wait_on_stack<group_of_one>(
        s, count, [](auto& g) { g.wait(); }, [](auto& g) { g.done(); });
    wait_on_stack<flag_with_condition>(
        s, count,
        [](auto& f) {
          std::unique_lock lock(f.m);
          f.cv.wait(lock, [&] { return f.set; });
        },
        [](auto& f) {
          const std::lock_guard hold(f.m);
          f.set = true;
          f.cv.notify_one();
        });
    wait_on_stack<rendezvous>(
        s, count, [](auto& ch) { ch.receive(); }, [](auto& ch) { ch.send(1); });
  }
}
