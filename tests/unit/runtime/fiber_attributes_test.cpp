// SPDX-License-Identifier: BSL-1.0
// Attributes change while a fiber runs, is queued, is on its way, or sleeps.
// Looks inside: what a run queue has of a fiber is read by the worker's own fibers only.
#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "fiber/fiber.hpp"
#include "scheduler/weight.hpp"
#include "support/fixture.hpp"
#include "worker/runtime_core.hpp"
#include "worker/worker.hpp"

using namespace lagom::tests;
namespace detail = lagom::detail;
namespace scheduler = lagom::scheduler;

namespace {

lagom::runtime_options workers(unsigned n) {
  lagom::runtime_options options;
  options.workers = n;
  options.topology = "synthetic:pack:1 core:4 pu:1";
  options.pin_mode = lagom::pin::none;
  return options;
}

bool same(const lagom::attributes& a, const lagom::attributes& b) {
  return a.name == b.name && a.policy == b.policy && a.nice == b.nice && a.slice == b.slice && a.util_min == b.util_min &&
         a.util_max == b.util_max && a.affinity == b.affinity && a.pinned == b.pinned && a.stack_size == b.stack_size &&
         a.stack.data() == b.stack.data();
}

// How often a worker of the caller's runtime has taken a change along.
std::uint64_t changes_taken() {
  std::uint64_t n = 0;
  for (const auto& w : detail::current_worker()->core.workers) n += w->changes_taken();
  return n;
}

std::vector<lagom::attributes> all_modes() {
  std::vector<lagom::attributes> all(7);
  all[1].nice = 7;
  all[2].slice = 3ms;
  all[3].slice = 500us;  // custom, and what the default is
  all[3].policy = lagom::policy::idle;
  all[4].util_min = 300;
  all[4].util_max = 300;
  all[5].util_max = 0;
  all[5].policy = lagom::policy::batch;
  all[6].name = "a fiber with a long name, beyond any small buffer";
  all[6].affinity = lagom::cpu_set::parse("0-1");
  all[6].pinned = true;
  all[6].stack_size = 64 * 1024;
  return all;
}

// A fiber that sleeps until it is told to end; the others find its block.
struct sleeper {
  lagom::event go;
  std::atomic<detail::fiber_block*> block{nullptr};
  std::function<void()> afterwards;
  lagom::fiber fiber;

  explicit sleeper(lagom::runtime& rt, lagom::attributes a = {}, std::function<void()> after = [] {})
      : afterwards(std::move(after)), fiber(rt.spawn(a, [this] {
          block = detail::current_fiber();
          go.wait();
          afterwards();
        })) {
    REQUIRE(becomes_true([this] { return fiber.stats().state == lagom::fiber_state::parked; }, 10s));
  }
};

scheduler::weight share_of_nice(int n) { return scheduler::weight_of_nice(n); }

}  // namespace

TEST_CASE("attributes: get and set again change nothing, in any mode, and touch no run queue") {
  lagom::runtime rt(workers(2));
  rt.run([&] {
    const std::uint64_t before = changes_taken();
    for (const lagom::attributes& a : all_modes()) {
      lagom::event go;
      lagom::fiber f = lagom::spawn(a, [&] {
        go.wait();
        lagom::this_fiber::set_attributes(lagom::this_fiber::get_attributes());
      });
      CHECK(same(f.get_attributes(), a));
      for (int i = 0; i < 3; ++i) {
        f.set_attributes(f.get_attributes());
        f.set_attributes(a);
        f.change({});
        f.set_nice(a.nice);
        f.set_slice(a.slice);
        f.set_policy(a.policy);
        f.change({.keep_params = true});
        f.change({.affinity = a.affinity, .name = a.name, .pinned = a.pinned});
      }
      CHECK(same(f.get_attributes(), a));
      go.set();
      f.join();
    }
    CHECK(changes_taken() == before);
  });
}

TEST_CASE("attributes: what was set is read back at once, and changes of some leave the others") {
  lagom::runtime rt(workers(2));
  sleeper s(rt);
  const std::vector<lagom::attributes> modes = all_modes();
  for (std::size_t i = 0; i + 1 < modes.size(); ++i) {
    s.fiber.set_attributes(modes[i]);
    CHECK(same(s.fiber.get_attributes(), modes[i]));
  }
  s.fiber.set_attributes({});
  s.fiber.change({.slice = 2ms, .util_min = 100});
  s.fiber.change({.nice = -3, .name = "new"});
  s.fiber.change({.policy = lagom::policy::batch});
  lagom::attributes expected;
  expected.name = "new";
  expected.nice = -3;
  expected.policy = lagom::policy::batch;
  expected.slice = 2ms;
  expected.util_min = 100;
  CHECK(same(s.fiber.get_attributes(), expected));
  s.fiber.change({.nice = 12, .slice = 5ms, .keep_params = true});
  CHECK(same(s.fiber.get_attributes(), expected));
  s.fiber.change({.slice = 0ms, .reset_util_min = true});
  expected.slice = 0ms;
  expected.util_min.reset();
  CHECK(same(s.fiber.get_attributes(), expected));
  s.fiber.set_nice(100);
  CHECK(s.fiber.get_attributes().nice == 19);
  std::ostringstream text;
  rt.dump(text);
  CHECK(text.str().find("'new'") != std::string::npos);
  s.go.set();
}

TEST_CASE("attributes: what is wrong is refused, names the field, and changes nothing") {
  lagom::runtime rt(workers(2));
  lagom::attributes a;
  a.name = "steady";
  a.util_min = 600;
  sleeper s(rt, a);
  const auto refused = [&](const lagom::attribute_change& c, const char* field) {
    try {
      s.fiber.change(c);
      FAIL_CHECK((std::string("accepted: ") + field));
    } catch (const std::invalid_argument& e) {
      CHECK(std::string(e.what()).find(field) != std::string::npos);
    }
    CHECK(same(s.fiber.get_attributes(), a));
  };
  refused({.nice = 3, .slice = 999ns}, "slice");
  refused({.nice = 3, .slice = 101ms}, "slice");
  refused({.nice = 3, .slice = -1ns}, "slice");
  refused({.nice = 3, .util_min = -1}, "util_min");
  refused({.nice = 3, .util_max = 1025}, "util_max");
  refused({.nice = 3, .util_max = 599}, "util_min");
  refused({.nice = 3, .util_min = 300, .reset_util_min = true}, "util_min");
  refused({.nice = 3, .affinity = lagom::cpu_set::parse("3,77"), .name = "x"}, "affinity");
  const auto set_refused = [&](lagom::attributes wrong) {
    CHECK_THROWS_AS(s.fiber.set_attributes(wrong), std::invalid_argument);
    CHECK(same(s.fiber.get_attributes(), a));
  };
  lagom::attributes wrong = a;
  wrong.stack_size = 64 * 1024;
  set_refused(wrong);
  std::vector<std::byte> memory(64 * 1024);
  wrong = a;
  wrong.stack = memory;
  set_refused(wrong);
  wrong = a;
  wrong.util_max = 599;
  set_refused(wrong);
  s.go.set();
}

TEST_CASE("attributes: on a plain thread, of an empty handle, of a fiber that has ended") {
  const auto no_runtime = lagom::make_error_code(lagom::errc::no_runtime);
  CHECK(error_of([] { lagom::this_fiber::set_attributes({}); }) == no_runtime);
  CHECK(error_of([] { lagom::this_fiber::change({}); }) == no_runtime);
  CHECK(error_of([] { lagom::this_fiber::set_nice(1); }) == no_runtime);
  CHECK(error_of([] { lagom::this_fiber::set_slice(1ms); }) == no_runtime);
  CHECK(error_of([] { lagom::this_fiber::set_policy(lagom::policy::idle); }) == no_runtime);
  lagom::fiber empty;
  CHECK(error_of([&] { empty.set_attributes({}); }) == lagom::errc::not_joinable);
  CHECK(error_of([&] { empty.set_nice(1); }) == lagom::errc::not_joinable);
  std::optional<lagom::runtime> rt(workers(2));
  lagom::fiber over = rt->spawn([] {});
  CHECK(rt->drain_for(limit(5s)));
  over.set_nice(5);
  CHECK(over.get_attributes().nice == 0);
  rt.reset();
  over.change({.affinity = lagom::cpu_set::parse("0")});  // the runtime is gone too
  CHECK(over.get_attributes().affinity.empty());
  over.join();
}

TEST_CASE("attributes: the running fiber itself has the change on return") {
  lagom::runtime rt(workers(1));
  rt.run([&] {
    const detail::fiber_block& me = *detail::current_fiber();
    lagom::this_fiber::set_nice(5);
    CHECK(me.share == share_of_nice(5));
    lagom::this_fiber::set_slice(7ms);
    CHECK(me.slice == 7'000'000);
    CHECK(me.has_custom_slice);
    lagom::this_fiber::set_policy(lagom::policy::idle);
    CHECK(me.share == scheduler::idle_weight);
    CHECK(me.kind == scheduler::policy::idle);
    lagom::this_fiber::set_attributes({});
    CHECK(me.share == share_of_nice(0));
    CHECK(me.kind == scheduler::policy::normal);
    CHECK_FALSE(me.has_custom_slice);
  });
}

TEST_CASE("attributes: a fiber that runs on another worker has the change at its next step") {
  lagom::runtime rt(workers(1));
  std::atomic<bool> runs{false}, checkpoints_only{false};
  lagom::fiber f = rt.spawn([&] {
    const detail::fiber_block& me = *detail::current_fiber();
    runs = true;
    while (me.share != share_of_nice(9)) lagom::this_fiber::checkpoint();
    checkpoints_only = true;
    while (me.share != share_of_nice(-9)) lagom::this_fiber::yield();  // alone: the way that looks at nothing
  });
  while (!runs) std::this_thread::yield();
  f.set_nice(9);
  CHECK(becomes_true([&] { return checkpoints_only.load(); }, limit(10s)));
  f.set_nice(-9);
  CHECK(f.join_for(limit(10s)));
}

TEST_CASE("attributes: a queued fiber has the change while it is queued, asked by a fiber there, elsewhere, or a thread") {
  for (const int asker : {0, 1, 2}) {
    lagom::runtime rt(workers(2));
    std::atomic<bool> ready{false}, over{false};
    lagom::fiber queued;
    lagom::attributes here;
    here.affinity.set(0);
    lagom::fiber hog = rt.spawn(here, [&] {
      std::atomic<detail::fiber_block*> block{nullptr};
      queued = lagom::spawn(here, [&] {
        block = detail::current_fiber();
        while (!over) lagom::this_fiber::yield();
      });
      while (!block) lagom::this_fiber::yield();
      const detail::fiber_block& other = *block;
      ready = true;
      if (asker == 0) {
        queued.change({.policy = lagom::policy::batch, .nice = 4, .slice = 2ms});
        CHECK(other.share == share_of_nice(4));
      }
      // It may run for a moment: what counts is that the change does not wait for that.
      while (other.share != share_of_nice(4)) lagom::this_fiber::checkpoint();
      CHECK(other.kind == scheduler::policy::batch);
      CHECK(other.slice == 2'000'000);
      over = true;
    });
    while (!ready) std::this_thread::yield();
    lagom::attributes there;
    there.affinity.set(1);
    if (asker == 1) rt.spawn(there, [&] { queued.change({.policy = lagom::policy::batch, .nice = 4, .slice = 2ms}); }).join();
    if (asker == 2) queued.change({.policy = lagom::policy::batch, .nice = 4, .slice = 2ms});
    hog.join();
    queued.join();
  }
}

TEST_CASE("attributes: a sleeping fiber wakes with the change") {
  lagom::runtime rt(workers(2));
  for (int i = 0; i < 50; ++i) {
    scheduler::weight share{};
    bool is_custom = false;
    sleeper s(rt, {}, [&] {
      share = detail::current_fiber()->share;
      is_custom = detail::current_fiber()->has_custom_slice;
    });
    s.fiber.set_nice(10);
    s.fiber.change({.nice = 3, .slice = 1ms});
    if (i % 2 == 0) {
      s.go.set();
    } else {
      rt.run([&] { s.go.set(); });
    }
    s.fiber.join();
    CHECK(share == share_of_nice(3));
    CHECK(is_custom);
  }
}

TEST_CASE("attributes: a fiber in an inbox begins with the change") {
  lagom::runtime rt(workers(1));
  std::atomic<bool> held{false}, go{false};
  lagom::fiber rude = rt.spawn([&] {
    held = true;
    while (!go) {
    }
  });
  while (!held) std::this_thread::yield();
  scheduler::weight share{};
  lagom::fiber f = rt.spawn([&] { share = detail::current_fiber()->share; });
  f.set_nice(-7);
  go = true;
  f.join();
  CHECK(share == share_of_nice(-7));
}

TEST_CASE("attributes: default mode follows set_default_slice, custom mode does not, though it is the same number") {
  lagom::runtime rt(workers(1));
  lagom::attributes custom;
  custom.slice = 500us;
  rt.run([&] {
    const detail::fiber_block& me = *detail::current_fiber();
    CHECK(me.slice == 500'000);
    std::uint32_t found = 0;
    lagom::fiber other = lagom::spawn(custom, [&] {
      rt.set_default_slice(800us);
      lagom::this_fiber::sleep_for(1us);
      found = detail::current_fiber()->slice;
    });
    other.join();
    lagom::this_fiber::sleep_for(1us);
    CHECK(found == 500'000);
    CHECK(me.slice == 800'000);
    // And back to default mode: the default of now.
    lagom::this_fiber::set_slice(3ms);
    CHECK(me.slice == 3'000'000);
    rt.set_default_slice(900us);
    lagom::this_fiber::set_slice(0ms);
    CHECK(me.slice == 900'000);
  });
}

TEST_CASE("affinity: the fiber itself has moved on return") {
  lagom::runtime rt(workers(4));
  rt.run([&] {
    std::set<unsigned> seen;
    for (int i = 0; i < 40; ++i) {
      lagom::attribute_change c;
      c.affinity.emplace().set(static_cast<unsigned>(i % 4));
      lagom::this_fiber::change(c);
      const unsigned here = lagom::this_fiber::worker_index();
      seen.insert(here);
      lagom::this_fiber::yield();
      CHECK(lagom::this_fiber::worker_index() == here);
      lagom::this_fiber::sleep_for(10us);
      CHECK(lagom::this_fiber::worker_index() == here);
    }
    CHECK(seen.size() == 4);
  });
}

namespace {

// Which worker is on a CPU.
unsigned worker_on(lagom::runtime& rt, unsigned cpu) {
  lagom::attributes a;
  a.affinity.set(cpu);
  unsigned found = 99;
  rt.spawn(a, [&] { found = lagom::this_fiber::worker_index(); }).join();
  return found;
}

}  // namespace

TEST_CASE("affinity: a fiber that runs, is queued or sleeps elsewhere moves at its next chance") {
  for (const std::uint64_t chaos : {0u, 3u}) {
    lagom::runtime_options options = workers(4);
    options.chaos_seed = chaos;
    lagom::runtime rt(options);
    const unsigned goal = worker_on(rt, 2);
    std::vector<std::function<void()>> waits{[] { lagom::this_fiber::yield(); }, [] { lagom::this_fiber::checkpoint(); },
                                             [] { lagom::this_fiber::sleep_for(20us); }};
    std::vector<lagom::fiber> all;
    std::atomic<int> arrived{0};
    std::atomic<bool> over{false};
    for (int i = 0; i < 30; ++i) {
      all.push_back(rt.spawn([&, wait = waits[static_cast<std::size_t>(i) % 3]] {
        while (lagom::this_fiber::get_attributes().affinity.empty()) wait();
        while (lagom::this_fiber::worker_index() != goal) wait();
        ++arrived;
        while (!over) {
          wait();
          if (lagom::this_fiber::worker_index() != goal) std::abort();
        }
      }));
    }
    for (lagom::fiber& f : all) f.change({.affinity = lagom::cpu_set::parse("2")});
    CHECK(becomes_true([&] { return arrived == 30; }, limit(20s)));
    over = true;
    for (lagom::fiber& f : all) f.join();
  }
}

TEST_CASE("affinity: not while pinned, nor inside non_migratable; as soon as it may afterwards") {
  lagom::runtime rt(workers(4));
  const unsigned goal = worker_on(rt, 3);
  lagom::attributes elsewhere;
  elsewhere.affinity = lagom::cpu_set::parse("0-2");
  rt.spawn(elsewhere, [&] {
    const unsigned start = lagom::this_fiber::worker_index();
    {
      const lagom::non_migratable here;
      lagom::this_fiber::change({.affinity = lagom::cpu_set::parse("3")});
      for (int i = 0; i < 20; ++i) {
        lagom::this_fiber::yield();
        lagom::this_fiber::sleep_for(10us);
        CHECK(lagom::this_fiber::worker_index() == start);
      }
    }
    lagom::this_fiber::yield();
    CHECK(lagom::this_fiber::worker_index() == goal);
    lagom::this_fiber::change({.pinned = true});
    lagom::this_fiber::change({.affinity = lagom::cpu_set::parse("0-2")});
    for (int i = 0; i < 20; ++i) {
      lagom::this_fiber::yield();
      lagom::this_fiber::sleep_for(10us);
      CHECK(lagom::this_fiber::worker_index() == goal);
    }
    lagom::this_fiber::change({.pinned = false});
    CHECK(lagom::this_fiber::worker_index() != goal);
    {
      const lagom::no_suspend stay;
      lagom::this_fiber::change({.affinity = lagom::cpu_set::parse("3")});
      CHECK(lagom::this_fiber::worker_index() != goal);
    }
    lagom::this_fiber::checkpoint();
    lagom::this_fiber::yield();
    CHECK(lagom::this_fiber::worker_index() == goal);
  }).join();
}
