// SPDX-License-Identifier: BSL-1.0
// Clamped fibers come and go on one worker, and their clamps are changed. At every step the worker's clamps are the highest
// of its runnable fibers, by a look at all of them. Whoever looks is a fiber there too, capped at nothing: the least there is.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <random>

#include "scenario.hpp"

using namespace lagom::tests;

namespace {

struct clamps {
  std::optional<int> min{}, max{};
};

// Stays runnable or waits, as it is told.
class player {
 public:
  player(lagom::runtime& rt, clamps c) : asks_for(c) {
    lagom::attributes a;
    a.util_min = c.min;
    a.util_max = c.max;
    handle_ = rt.spawn(a, [this] {
      while (!is_over_) {
        go_.wait();
        go_.reset();
        while (!waits_) {
          if (change_itself_) lagom::this_fiber::change(*std::exchange(change_itself_, std::nullopt));
          lagom::this_fiber::yield();
        }
      }
    });
    settle(lagom::fiber_state::parked);
  }
  ~player() {
    is_over_ = true;
    waits_ = true;
    go_.set();
    handle_.join();
  }
  player(const player&) = delete;
  player& operator=(const player&) = delete;

  void come() {
    waits_ = false;
    go_.set();
    is_runnable = true;
  }
  void go() {
    waits_ = true;
    settle(lagom::fiber_state::parked);
    is_runnable = false;
  }
  // While it waits, is queued, or runs.
  void change(clamps to, bool by_itself) {
    lagom::attribute_change c{.util_min = to.min, .util_max = to.max, .reset_util_min = !to.min, .reset_util_max = !to.max};
    if (by_itself && is_runnable) {
      change_itself_ = c;
      while (change_itself_) lagom::this_fiber::yield();
    } else {
      handle_.change(c);
    }
    asks_for = to;
  }

  clamps asks_for;
  bool is_runnable = false;

 private:
  void settle(lagom::fiber_state s) {
    while (handle_.stats().state != s) lagom::this_fiber::yield();
  }

  lagom::event go_;
  bool waits_ = false, is_over_ = false;  // one worker: nobody else runs meanwhile
  std::optional<lagom::attribute_change> change_itself_{};
  lagom::fiber handle_;
};

using crowd = std::vector<std::unique_ptr<player>>;

bool is_right(lagom::runtime& rt, const crowd& all) {
  int min = 0, max = 0;  // the watcher's
  for (const auto& p : all) {
    if (!p->is_runnable) continue;
    min = std::max(min, p->asks_for.min.value_or(0));
    max = std::max(max, p->asks_for.max.value_or(1024));
  }
  const lagom::worker_stats w = rt.stats().workers.at(0);
  return w.util_min == min && w.util_max == max;
}

// Runs body(runtime) as the watcher, and looks that nothing is left.
template <class Body>
void watch(Body body) {
  lagom::runtime rt(scenario_options(1));
  lagom::attributes nothing;
  nothing.util_max = 0;
  rt.spawn(nothing, [&] { body(rt); }).join();
  CHECK(becomes_true([&] { return rt.stats().workers.at(0).util_max == 1024 && rt.stats().workers.at(0).util_min == 0; }, limit(5s)));
}

}  // namespace

TEST_CASE("32: max 200, max 400, none and min 800 come and go in all orders") {
  watch([](lagom::runtime& rt) {
    crowd all;
    for (const clamps c : {clamps{{}, 200}, clamps{{}, 400}, clamps{}, clamps{800, {}}}) all.push_back(std::make_unique<player>(rt, c));
    int wrong = 0;
    std::array<std::size_t, 4> coming{0, 1, 2, 3};
    do {
      std::array<std::size_t, 4> going{0, 1, 2, 3};
      do {
        for (const std::size_t i : coming) {
          all[i]->come();
          wrong += !is_right(rt, all);
        }
        for (const std::size_t i : going) {
          all[i]->go();
          wrong += !is_right(rt, all);
        }
      } while (std::next_permutation(going.begin(), going.end()));
    } while (std::next_permutation(coming.begin(), coming.end()));
    CHECK(wrong == 0);
  });
}

TEST_CASE("32: clamps are changed while their fibers run, are queued and wait") {
  watch([](lagom::runtime& rt) {
    std::mt19937 random(32);
    const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
    const auto any = [&] {
      const int a = draw(1025), b = draw(1025);
      clamps c{std::min(a, b), std::max(a, b)};
      if (draw(3) == 0) c.min.reset();
      if (draw(3) == 0) c.max.reset();
      return c;
    };
    crowd all;
    for (int i = 0; i < 6; ++i) all.push_back(std::make_unique<player>(rt, any()));
    int wrong = 0;
    for (long i = 0; i < rounds(20'000); ++i) {
      player& p = *all[random() % all.size()];
      switch (draw(4)) {
        case 0: p.is_runnable ? p.go() : p.come(); break;
        case 1: lagom::this_fiber::yield(); break;
        default: p.change(any(), draw(2) == 0);
      }
      wrong += !is_right(rt, all);
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE("32: a min above the max is refused, by the values the user gave") {
  watch([](lagom::runtime& rt) {
    player p(rt, {});
    p.change({600, {}}, false);
    CHECK_THROWS_AS(p.change({600, 599}, false), std::invalid_argument);
    CHECK_THROWS_AS(p.change({1, 0}, false), std::invalid_argument);
    p.change({{}, 100}, false);
    CHECK_THROWS_AS(p.change({101, 100}, false), std::invalid_argument);
    p.change({101, {}}, false);
  });
}
