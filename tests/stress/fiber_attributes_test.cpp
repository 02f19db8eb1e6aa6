// SPDX-License-Identifier: BSL-1.0
// Everything about fibers changes at once: threads and fibers change attributes of fibers that run, yield, sleep, wait, are
// stolen, begin and end, on runtimes with few and with many workers, without and with chaos. In the end each has what it was
// told last, was never lost, never ran where it was not allowed, and the workers' clamps are none.
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "fiber/fiber.hpp"
#include "scheduler/attributes.hpp"
#include "support/fixture.hpp"

using namespace lagom::tests;
namespace detail = lagom::detail;
namespace scheduler = lagom::scheduler;

namespace {

lagom::runtime_options four_cpus(std::uint64_t chaos) {
  lagom::runtime_options options;
  options.workers = 4;
  options.topology = "synthetic:pack:1 core:4 pu:1";
  options.pin_mode = lagom::pin::none;
  options.chaos_seed = chaos;
  return options;
}

lagom::attribute_change any_change(std::mt19937& random) {
  lagom::attribute_change c;
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  switch (draw(8)) {
    case 0: c.policy = static_cast<lagom::policy>(draw(3)); break;
    case 1: c.slice = std::chrono::microseconds(draw(3) * 200); break;
    case 2:
      c.util_min = draw(500);
      c.util_max = 500 + draw(525);
      break;
    case 3: c.reset_util_min = c.reset_util_max = true; break;
    case 4: c.affinity = lagom::cpu_set::parse(std::array{"", "0", "1-2", "3", "0,2-3"}[static_cast<std::size_t>(draw(5))]); break;
    case 5: c.name = "n" + std::to_string(draw(100)); break;
    case 6: c.pinned = draw(4) == 0; break;
    default: c.nice = draw(40) - 20;
  }
  return c;
}

// One of the fibers that are changed. The handle may be used by one at a time.
struct subject {
  std::mutex one_at_a_time;
  lagom::fiber handle;
};

class turmoil {
 public:
  explicit turmoil(lagom::runtime& rt) : rt_(rt) {
    for (auto& s : subjects_) {
      s = std::make_unique<subject>();
      s->handle = rt_.spawn([this] { live(); });
    }
  }
  void ask(std::uint32_t seed, long times) {
    std::mt19937 random(seed);
    for (long i = 0; i < times; ++i) {
      subject& s = *subjects_[random() % subjects_.size()];
      const lagom::attribute_change c = any_change(random);
      {
        const std::lock_guard hold(s.one_at_a_time);
        s.handle.change(c);
        // Now and then it ends, and another one begins in what may be its block.
        if (random() % 200 == 0) {
          s.handle.request_stop();
          s.handle.join();
          s.handle = rt_.spawn(a_few(random), [this] { live(); });
        }
      }
      if (i % 16 == 0) std::this_thread::yield();
    }
  }
  // Nobody asks any more: each has what it reads of itself.
  void finish(verdict& v) {
    for (auto& s : subjects_) s->handle.change({.affinity = lagom::cpu_set(), .pinned = false});
    settled_ = true;
    for (auto& s : subjects_) {
      std::atomic<bool>& ok = *settled_ok_;
      CHECK(becomes_true([&] { return alive_right_ >= static_cast<long>(subjects_.size()); }, limit(20s)));
      v.expect(ok, "a fiber is not what it was told to be");
      s->handle.request_stop();
      s->handle.join();
    }
  }

 private:
  static lagom::attributes a_few(std::mt19937& random) {
    lagom::attributes a;
    if (random() % 2) a.util_min = 700;
    if (random() % 2) a.nice = 5;
    return a;
  }
  void live() {
    std::mt19937 random(static_cast<std::uint32_t>(lagom::this_fiber::get_id().value()));
    bool is_counted = false;
    try {
      while (!lagom::this_fiber::stop_requested()) {
        switch (random() % 6) {
          case 0: lagom::this_fiber::yield(); break;
          case 1: lagom::this_fiber::sleep_for(std::chrono::microseconds(random() % 100)); break;
          case 2: lagom::this_fiber::checkpoint(); break;
          case 3: {
            const std::lock_guard hold(mutex_);
            ++shared_;
            break;
          }
          case 4: {
            const lagom::non_migratable here;
            const unsigned w = lagom::this_fiber::worker_index();
            lagom::this_fiber::yield();
            if (lagom::this_fiber::worker_index() != w) *settled_ok_ = false;
            break;
          }
          default: lagom::this_fiber::change(settled_ ? lagom::attribute_change{} : own_change(random));
        }
        if (settled_ && !is_counted && is_right()) {
          is_counted = true;
          ++alive_right_;
        }
      }
    } catch (const std::system_error& e) {
      if (e.code() != lagom::errc::stopped) *settled_ok_ = false;
    }
  }
  static lagom::attribute_change own_change(std::mt19937& random) {
    lagom::attribute_change c;
    c.nice = static_cast<int>(random() % 10);
    return c;
  }
  // What the run queue has of the caller is what its attributes say.
  static bool is_right() {
    const detail::fiber_block& me = *detail::current_fiber();
    const lagom::attributes a = lagom::this_fiber::get_attributes();
    const bool is_idle = a.policy == lagom::policy::idle;
    const scheduler::clamp_range clamp{static_cast<std::uint16_t>(a.util_min.value_or(0)), static_cast<std::uint16_t>(a.util_max.value_or(1024))};
    return me.share == (is_idle ? scheduler::idle_weight : scheduler::weight_of_nice(a.nice)) && me.clamp == clamp &&
           me.has_custom_slice == (a.slice.count() != 0) && !me.allowed && me.pin_count == 0;
  }

  lagom::runtime& rt_;
  std::array<std::unique_ptr<subject>, 24> subjects_;
  lagom::mutex mutex_;
  long shared_ = 0;
  std::atomic<bool> settled_{false};
  std::atomic<long> alive_right_{0};
  std::unique_ptr<std::atomic<bool>> settled_ok_ = std::make_unique<std::atomic<bool>>(true);
};

void check_turmoil(std::uint64_t chaos) {
  const leak_check leaks;
  {
    verdict v;
    lagom::runtime rt(four_cpus(chaos));
    turmoil all(rt);
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < 2; ++i) threads.emplace_back([&, i] { all.ask(11 + i, rounds(3'000)); });
    for (std::thread& t : threads) t.join();
    all.finish(v);
    CHECK(rt.drain_for(limit(10s)));
    for (const lagom::worker_stats& w : rt.stats().workers) {
      CHECK(w.util_min == 0);
      CHECK(w.util_max == 1024);
    }
  }
  leaks.check();
}

}  // namespace

TEST_CASE("attributes change while everything happens") {
  SUBCASE("without chaos") { check_turmoil(0); }
  SUBCASE("with chaos") { check_turmoil(17); }
}

TEST_CASE("attributes: fibers of two runtimes change each other's, and the runtimes end in either order") {
  const leak_check leaks;
  for (int i = 0; i < rounds(40); ++i) {
    auto one = std::make_unique<lagom::runtime>(four_cpus(0));
    auto other = std::make_unique<lagom::runtime>(four_cpus(0));
    std::vector<lagom::fiber> ours, theirs;
    const auto body = [] {
      for (int k = 0; k < 50; ++k) lagom::this_fiber::yield();
    };
    for (int k = 0; k < 8; ++k) {
      ours.push_back(one->spawn(body));
      theirs.push_back(other->spawn(body));
    }
    const auto meddle = [](std::vector<lagom::fiber>& all) {
      for (int k = 0; k < 40; ++k) all[static_cast<std::size_t>(k) % all.size()].set_nice(k % 20);
    };
    lagom::fiber first = one->spawn([&] { meddle(theirs); });
    lagom::fiber second = other->spawn([&] { meddle(ours); });
    first.join();
    second.join();
    if (i % 2 == 0) one.reset();
    other.reset();
    one.reset();
    for (lagom::fiber& f : ours) f.set_nice(1);
    for (lagom::fiber& f : theirs) f.set_nice(1);
  }
  leaks.check();
}
