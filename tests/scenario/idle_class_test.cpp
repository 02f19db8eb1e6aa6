// SPDX-License-Identifier: BSL-1.0
// Fibers of the idle class use what others leave, and others hardly notice them.
#include "scenario.hpp"

using namespace lagom::tests;

namespace {

lagom::attributes idle_class(std::string name = {}) {
  lagom::attributes a;
  a.name = std::move(name);
  a.policy = lagom::policy::idle;
  return a;
}

double seconds_of(const std::vector<contestant*>& some) {
  double sum = 0;
  for (const contestant* c : some) sum += c->seconds;
  return sum;
}

// Opens a window, closes it, and says how long it really was.
double measured(contest& all, std::chrono::nanoseconds d) {
  const auto begun = clock::now();
  all.measure(d);
  return std::chrono::duration<double>(clock::now() - begun).count();
}

}  // namespace

TEST_CASE("20: idle burners do not delay who wakes, and use what it leaves") {
  lagom::runtime rt(scenario_options(1));
  contest all(rt);
  std::vector<contestant*> burners;
  for (int i = 0; i < 4; ++i) burners.push_back(&all.burner(idle_class()));
  std::vector<double> delays;
  const contestant& periodic = all.start({.name = "periodic"}, [&](contestant&) {
    while (!all.is_over()) {
      const auto due = clock::now() + 5ms;
      const auto taken = all.taken_from(0);
      lagom::this_fiber::sleep_until(due);
      delays.push_back(milliseconds(clock::now() - due - (all.taken_from(0) - taken)));
      all.work(200us);
    }
  });
  const double whole = measured(all, window(2s, 10s));
  all.finish();
  CHECK(percentile(delays, 95) <= milliseconds(limit(2ms)));
  CHECK(percentile(delays, 99) <= milliseconds(limit(2ms)) + all.longest_taken_ms());
  CHECK(seconds_of(burners) > 0.9 * (whole - periodic.seconds));
  for (const contestant* b : burners) CHECK(b->seconds > 0.1 * seconds_of(burners));
}

TEST_CASE("20: beside a normal burner idle ones get their weight's share") {
  lagom::runtime rt(scenario_options(1));
  contest all(rt);
  std::vector<contestant*> idle;
  for (int i = 0; i < 4; ++i) idle.push_back(&all.burner(idle_class()));
  contestant& normal = all.burner();
  std::this_thread::sleep_for(100ms);
  all.measure(window(3s, 20s));
  all.finish();
  const double share = seconds_of(idle) / (seconds_of(idle) + normal.seconds);
  constexpr double documented = 4 * 3.0 / (1024 + 4 * 3);
  // A stretch in which the system runs others on this CPU is charged to whoever was running.
  const double charged = all.longest_taken_ms() / 1e3 / (seconds_of(idle) + normal.seconds);
  CHECK(share >= 0.7 * documented - charged);
  CHECK(share <= 1.5 * documented + 2 * charged);
  // Its turns are short stints, not slices: 3 ms is the slice here.
  CHECK(percentile(normal.gaps_ms, 90) <= milliseconds(limit(1ms)));
}

TEST_CASE("20: an idle fiber on a worker with nothing else to do runs at full speed") {
  lagom::runtime rt(scenario_options(1));
  contest all(rt);
  const contestant& idle = all.burner(idle_class());
  std::this_thread::sleep_for(20ms);
  const auto before = idle.handle.stats();
  const double whole = measured(all, window(500ms, 2s));
  const auto after = idle.handle.stats();
  CHECK(idle.seconds > 0.95 * whole);
  CHECK(after.switches_involuntary == before.switches_involuntary);
}

TEST_CASE("H32: short normal fibers beside an idle hog") {
  lagom::runtime rt(scenario_options(1));
  contest all(rt);
  const contestant& hog = all.burner(idle_class());
  for (int i = 0; i < 4; ++i) all.worker({}, 20us, 200us);
  all.measure(window(1s, 5s));
  CHECK(hog.share >= 0.2);
  // From runnable to running: who is woken waits for those that are, not for the hog.
  CHECK(rt.stats().wake_latency.percentile(50) <= limit(50us).count());
  CHECK(rt.stats().wake_latency.percentile(90) <= limit(200us).count());
}
