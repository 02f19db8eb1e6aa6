// SPDX-License-Identifier: BSL-1.0
// fiber_local: one value per fiber and per plain thread, made late, destroyed in order.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/fixture.hpp"

using namespace lagom::tests;

namespace {

lagom::fiber_local<int> global_number([] { return 7; });

// Tells a list which ends when.
struct witness {
  std::string* log = nullptr;
  char name = '?';
  ~witness() {
    if (log) *log += name;
  }
};

struct counted {
  inline static std::atomic<long> alive{0};
  counted() { ++alive; }
  ~counted() { --alive; }
  long value = 0;
};

}  // namespace

TEST_CASE("every fiber has its own value, wherever it runs") {
  lagom::runtime_options options;
  options.chaos_seed = 5;  // moves at every switch
  for_each_worker_count(
      [](lagom::runtime& rt) {
        verdict v;
        lagom::fiber_local<long> number;
        std::vector<lagom::fiber> fibers;
        for (long i = 1; i <= 50; ++i) {
          fibers.push_back(rt.spawn([&, i] {
            v.expect(number.get_if() == nullptr, "a value before the first look");
            v.expect(*number == 0, "does not begin as T()");
            v.expect(*global_number == 7, "does not begin as made");
            long* const where = &*number;
            for (int turn = 0; turn < 50; ++turn) {
              *number += i;
              global_number.get() += 1;
              lagom::this_fiber::yield();
              v.expect(&number.get() == where && number.get_if() == where, "the value has moved");
              v.expect(*number == i * (turn + 1), "somebody else's value");
            }
            v.expect(*global_number == 57, "somebody else's global value");
          }));
        }
        for (lagom::fiber& f : fibers) f.join();
        CHECK(number.get_if() == nullptr);
        rt.run([&] { v.expect(*number == 0 && *global_number == 7, "inherited"); });
      },
      options);
}

TEST_CASE("destroyed on the fiber in reverse order, after its callable, before join returns") {
  for_each_worker_count([](lagom::runtime& rt) {
    std::string log;
    lagom::fiber_local<witness> a, b, c;
    for (const bool detached_form : {false, true}) {
      log.clear();
      auto body = [&, own = witness{}]() mutable {
        own.log = &log;
        own.name = '!';
        for (auto* w : {&*b, &*a, &*c}) w->log = &log;
        b->name = 'b';
        a->name = 'a';
        c->name = 'c';
      };
      if (detached_form) {
        rt.spawn_detached([&, body = std::move(body)]() mutable { body(); });
        CHECK(rt.drain_for(limit(10s)));
      } else {
        rt.spawn([&, body = std::move(body)]() mutable { body(); }).join();
      }
      CHECK(log == "!cab");
    }
  });
}

TEST_CASE("values end when the fiber ends by an exception, and the exception arrives") {
  for_each_worker_count([](lagom::runtime& rt) {
    lagom::fiber_local<counted> value;
    lagom::fiber f = rt.spawn([&] {
      value->value = 1;
      throw std::runtime_error("on purpose");
    });
    CHECK_THROWS_AS(f.join(), std::runtime_error);
    CHECK(counted::alive == 0);
  });
}

namespace {

// Ends slowly, and looks at values while it ends.
struct late {
  lagom::fiber_local<int>* other = nullptr;
  int* seen = nullptr;
  ~late() {
    if (!other) return;
    lagom::this_fiber::sleep_for(1ms);
    *seen = **other;
  }
};

}  // namespace

TEST_CASE("a destructor may wait, and may make values, which are destroyed too") {
  for_each_worker_count([](lagom::runtime& rt) {
    lagom::fiber_local<int> number([] { return 42; });
    lagom::fiber_local<late> last;
    int seen = 0;
    rt.spawn([&] {
        last->other = &number;
        last->seen = &seen;
      }).join();
    CHECK(seen == 42);
  });
}

TEST_CASE("plain threads have values of their own, which end with them") {
  lagom::fiber_local<counted> value;
  long before = counted::alive;
  std::thread([&] {
    value->value = 3;
    CHECK(value.get_if()->value == 3);
    CHECK(counted::alive == before + 1);
  }).join();
  CHECK(counted::alive == before);
  value->value = 4;
  lagom::runtime rt({.workers = 1});
  CHECK(rt.run([&] { return value->value; }) == 0);
  CHECK(value->value == 4);
  value.reset();
  CHECK(counted::alive == before);
  CHECK(value.get_if() == nullptr);
}

TEST_CASE("reset, and values that outlive their fiber_local") {
  for_each_worker_count([](lagom::runtime& rt) {
    rt.run([] {
      {
        auto short_lived = std::make_unique<lagom::fiber_local<counted>>();
        (*short_lived)->value = 1;
        short_lived->reset();
        CHECK(counted::alive == 0);
        (*short_lived)->value = 2;
        short_lived.reset();
        CHECK(counted::alive == 1);
      }
      // Takes over the index of the one before, not its value.
      lagom::fiber_local<counted> next;
      CHECK(next.get_if() == nullptr);
      CHECK(next->value == 0);
      CHECK(counted::alive == 2);
    });
    CHECK(counted::alive == 0);
  });
}

TEST_CASE("thousands of them, and indices that are used again") {
  lagom::runtime rt({.workers = 2});
  rt.run([] {
    long wrong = 0;
    for (int turn = 0; turn < 3; ++turn) {
      std::vector<std::unique_ptr<lagom::fiber_local<int>>> many;
      for (int i = 0; i < 5000; ++i) many.push_back(std::make_unique<lagom::fiber_local<int>>([i] { return i; }));
      for (int i = 0; i < 5000; ++i) **many[static_cast<std::size_t>(i)] += 1;
      for (int i = 0; i < 5000; ++i) wrong += **many[static_cast<std::size_t>(i)] != i + 1;
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE("a maker that throws leaves nothing; types that cannot be moved or made by default") {
  int calls = 0;
  lagom::fiber_local<std::string> picky([&]() -> std::string {
    if (++calls == 1) throw std::runtime_error("not yet");
    return "made";
  });
  CHECK_THROWS_AS(picky.get(), std::runtime_error);
  CHECK(picky.get_if() == nullptr);
  CHECK(*picky == "made");
  lagom::fiber_local<std::atomic<int>> fixed;
  fixed->store(3);
  CHECK(*fixed == 3);
  struct needs_argument {
    explicit needs_argument(int v) : value(v) {}
    int value;
  };
  lagom::fiber_local<needs_argument> made([] { return needs_argument(5); });
  CHECK(made->value == 5);
  static_assert(!std::default_initializable<lagom::fiber_local<needs_argument>>);
}
