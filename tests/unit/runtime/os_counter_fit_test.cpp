// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <utility>

#include "os/counter_fit.hpp"

using lagom::os::clock_reading;
using lagom::os::counter_fit;

namespace {

constexpr std::int64_t microsecond = 1'000;
constexpr std::int64_t millisecond = 1'000'000;
constexpr std::int64_t second = 1'000'000'000;

// A counter and a kernel clock that the test bends at will, and a fit that is driven as fast_clock drives it.
class machine {
 public:
  machine(double ticks_per_ns, std::int64_t noise_ns, unsigned seed)
      : ticks_per_ns_(ticks_per_ns), noise_ns_(noise_ns), random_(seed) {
    const clock_reading first = read();
    pass(20 * microsecond);
    fit_ = counter_fit(first, read());
  }

  void pass(std::int64_t real_ns) {
    ns_ += static_cast<double>(real_ns) * kernel_rate_;
    ticks_ += static_cast<double>(real_ns) * ticks_per_ns_;
  }

  void set_ticks_per_ns(double rate) { ticks_per_ns_ = rate; }
  void set_kernel_rate(double rate) { kernel_rate_ = rate; }
  void jump_ticks(double by) { ticks_ += by; }
  void set_ticks(double to) { ticks_ = to; }

  // One look at the clock; keeps account of what must hold.
  std::int64_t look() {
    const auto ticks = static_cast<std::uint64_t>(ticks_);
    std::int64_t now = 0;
    if (fit_.trusts_counter() && fit_.covers(ticks)) {
      now = fit_.at(ticks);
    } else if (fit_.trusts_counter()) {
      const clock_reading here = read();
      ++anchors_;
      now = fit_.anchor(here) ? fit_.at(here.ticks) : std::max(fit_.floor_ns(), here.ns);
    } else {
      now = std::max(latest_, static_cast<std::int64_t>(ns_));
    }
    went_back_ = went_back_ || now < latest_;
    latest_ = now;
    worst_ = std::max(worst_, std::abs(now - static_cast<std::int64_t>(ns_)));
    return now;
  }

  // Looks at uneven distances for a while.
  void run(std::int64_t real_ns, std::int64_t step_ns) {
    for (std::int64_t passed = 0; passed < real_ns;) {
      const auto step = 1 + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(2 * step_ns));
      pass(step);
      passed += step;
      look();
    }
  }

  // Worst error since the last call.
  std::int64_t take_worst() { return std::exchange(worst_, 0); }
  [[nodiscard]] bool went_back() const { return went_back_; }
  [[nodiscard]] bool trusts_counter() const { return fit_.trusts_counter(); }
  [[nodiscard]] int anchors() const { return anchors_; }
  [[nodiscard]] double ticks() const { return ticks_; }

 private:
  clock_reading read() {
    const auto noise = static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(2 * noise_ns_ + 1)) - noise_ns_;
    return {static_cast<std::uint64_t>(ticks_), static_cast<std::int64_t>(ns_) + noise};
  }

  double ticks_per_ns_;
  double kernel_rate_ = 1.0;
  double ticks_ = 1e12;
  double ns_ = 5e12;
  std::int64_t noise_ns_;
  std::mt19937_64 random_;
  counter_fit fit_;
  std::int64_t latest_ = 0;
  std::int64_t worst_ = 0;
  bool went_back_ = false;
  int anchors_ = 0;
};

constexpr std::int64_t noise = 30;

}  // namespace

TEST_CASE("a good counter of any frequency: a fifth of a microsecond from the start on") {
  for (const double ticks_per_ns : {0.04, 0.1, 1.0, 2.6, 5.5}) {
    CAPTURE(ticks_per_ns);
    machine machine(ticks_per_ns, noise, 1);
    machine.run(3 * millisecond, 200);
    machine.run(100 * millisecond, 20 * microsecond);
    CHECK(machine.take_worst() < 200);
    CHECK_FALSE(machine.went_back());
    CHECK(machine.trusts_counter());
  }
}

TEST_CASE("one reading of the kernel's clock per millisecond is enough") {
  machine machine(2.6, noise, 2);
  machine.run(10 * millisecond, microsecond);
  const int warm = machine.anchors();
  machine.run(100 * millisecond, microsecond);
  CHECK(machine.anchors() - warm >= 99);
  CHECK(machine.anchors() - warm <= 102);
}

TEST_CASE("a kernel that slews its clock is followed") {
  machine machine(2.6, noise, 3);
  machine.run(3 * second, 50 * microsecond);
  CHECK(machine.take_worst() < 200);
  for (const double rate : {1.0005, 0.9995, 1.0}) {
    machine.set_kernel_rate(rate);
    // One window with the old slope is 0.5 us off; a span later the new slope is known.
    machine.run(3 * second, 50 * microsecond);
    CHECK(machine.take_worst() < 1200);
    machine.run(second, 50 * microsecond);
    CHECK(machine.take_worst() < 200);
  }
  CHECK_FALSE(machine.went_back());
  CHECK(machine.trusts_counter());
}

TEST_CASE("suspend: the counter jumps ahead, or starts anew") {
  machine machine(2.6, noise, 4);
  machine.run(50 * millisecond, 5 * microsecond);
  CHECK(machine.take_worst() < 200);

  // No telling how far at() had got before, so time may stand still for up to a window.
  machine.jump_ticks(2.6 * 3600e9);
  machine.run(5 * millisecond, 5 * microsecond);
  CHECK(machine.take_worst() <= millisecond + 200);
  machine.run(5 * millisecond, 5 * microsecond);
  CHECK(machine.take_worst() < 200);

  machine.set_ticks(1e6);
  machine.run(5 * millisecond, 5 * microsecond);
  CHECK(machine.take_worst() <= millisecond + 200);
  machine.run(5 * millisecond, 5 * microsecond);
  CHECK(machine.take_worst() < 200);
  CHECK_FALSE(machine.went_back());
  CHECK(machine.trusts_counter());
}

TEST_CASE("the virtual machine moves to a host with another frequency") {
  machine machine(2.6, noise, 5);
  machine.run(50 * millisecond, 5 * microsecond);
  machine.take_worst();
  for (const double ticks_per_ns : {5.2, 1.9, 3.3}) {
    CAPTURE(ticks_per_ns);
    machine.set_ticks_per_ns(ticks_per_ns);
    machine.run(10 * millisecond, 5 * microsecond);
    CHECK(machine.take_worst() < 2 * millisecond);
    machine.run(2 * second, 50 * microsecond);
    machine.take_worst();
    machine.run(50 * millisecond, 5 * microsecond);
    CHECK(machine.take_worst() < 200);
  }
  CHECK_FALSE(machine.went_back());
  CHECK(machine.trusts_counter());
}

TEST_CASE("long pauses between looks do not hurt") {
  machine machine(2.6, noise, 6);
  for (const std::int64_t pause : {millisecond, second, 60 * second, 3600 * second, 10 * microsecond}) {
    machine.pass(pause);
    machine.look();
    machine.run(100 * microsecond, microsecond);
    CHECK(machine.take_worst() < 200);
  }
  CHECK_FALSE(machine.went_back());
  CHECK(machine.trusts_counter());
}

TEST_CASE("a counter that is no clock is given up, and time goes on without a step back") {
  machine machine(2.6, noise, 7);
  for (int i = 0; i < 200; ++i) {
    machine.set_ticks_per_ns(i % 2 == 0 ? 0.5 : 7.0);
    machine.run(2 * millisecond, 5 * microsecond);
  }
  CHECK_FALSE(machine.trusts_counter());
  CHECK_FALSE(machine.went_back());
  machine.run(10 * millisecond, 5 * microsecond);
  machine.take_worst();
  machine.run(10 * millisecond, 5 * microsecond);
  CHECK(machine.take_worst() == 0);
}

TEST_CASE("a counter that stands still or makes no sense is not trusted from the start") {
  const clock_reading start{1000, 1000};
  CHECK_FALSE(counter_fit().trusts_counter());
  CHECK_FALSE(counter_fit(start, {1000, 21'000}).trusts_counter());
  CHECK_FALSE(counter_fit(start, {50'000, 1000}).trusts_counter());
  CHECK_FALSE(counter_fit(start, {1010, 1'000'000}).trusts_counter());  // slower than 32 ns per tick
  CHECK_FALSE(counter_fit().covers(0));
  CHECK(counter_fit(start, {51'000, 21'000}).trusts_counter());
}
