// SPDX-License-Identifier: BSL-1.0
// Reports from other schedulers, replayed: what went wrong there must go right here. In virtual time, so exactly.
#include "driver.hpp"

namespace lagom::test {

namespace {

constexpr nanos wake = 30 * us;  // what the simulator charges

std::string hog(const std::string& name, const std::string& more) {
  return R"({"name": ")" + name + R"(", )" + more + R"("pattern": {"type": "busy"}})";
}

nanos wait_p99(const sim::simulation& s, scheduler::policy kind) { return s.figures().all_wakes(kind).quantile(0.99); }

}  // namespace

TEST_CASE("one heavy and seven light hogs keep eight workers busy") {  // EuroSys 2016, group imbalance
  const auto s = played(workload(100 * ms, 10 * ms, hog("heavy", R"("worker": 0, "nice": -20, )") + "," +
                                                        hog("light", R"("worker": 0, "count": 7, "nice": 19, )")),
                        two_caches());
  CHECK(s->is_sound());
  for (std::size_t w = 0; w < 8; ++w) CHECK(busy(*s, w) > 0.99);
}

TEST_CASE("who wakes beside a full cache goes to the idle one") {  // EuroSys 2016, overload on wakeup
  const auto s = played(workload(200 * ms, 20 * ms,
                                 hog("hog", R"("count": 4, "worker": 0, "affinity": [0, 1, 2, 3], )") + R"(,
                                 {"name": "sleeper", "worker": 0, "pattern": {"type": "run_sleep", "run_ns": 1000000, "sleep_ns": 3000000}})"),
                        two_caches());
  CHECK(s->is_sound());
  CHECK(s->figures().fibers()[1].wake.quantile(0.99) <= wake + 15 * us);
  double elsewhere = 0;
  for (std::size_t w = 4; w < 8; ++w) elsewhere += busy(*s, w);
  CHECK(elsewhere > 0.95 * share_of(*s, 1));
}

TEST_CASE("affinity to two caches far apart uses both") {  // EuroSys 2016, group construction
  const auto s = played(workload(200 * ms, 50 * ms, hog("hog", R"("count": 16, "worker": 0, "affinity": [0, 1, 2, 3, 12, 13, 14, 15], )")),
                        "synthetic:pack:2 l3:2 core:4 pu:1");
  CHECK(s->is_sound());
  double near = 0, far = 0;
  for (std::size_t w : {0, 1, 2, 3}) near += busy(*s, w);
  for (std::size_t w : {12, 13, 14, 15}) far += busy(*s, w);
  CHECK(near == doctest::Approx(far).epsilon(0.1));
  for (std::size_t w = 4; w < 12; ++w) CHECK(busy(*s, w) == 0);
}

TEST_CASE("a fiber behind one that never looks is fetched") {  // tokio #4941
  const auto s = played(workload(100 * ms, 0,
                                 R"({"name": "rude", "worker": 0, "pattern": {"type": "once", "run_ns": 90000000, "polite": false}},
                                    {"name": "ready", "worker": 0, "start_ns": 5000000, "pattern": {"type": "once", "run_ns": 1000}})"),
                        flat(4));
  CHECK(s->is_sound());
  // The monitor looks at most ten milliseconds apart, at least after the second look it calls one that has to wake up.
  CHECK(s->figures().fibers()[1].response.count() == 1);
  CHECK(s->figures().fibers()[1].response.max() <= 11 * ms + 8 * wake);
}

TEST_CASE("a ping-pong does not keep a third one waiting") {  // tokio #2349, #5712
  const auto s = played(workload(100 * ms, 0,
                                 R"({"name": "a", "pattern": {"type": "pingpong", "run_ns": 1000, "peer": "b", "first": true}},
                                    {"name": "b", "pattern": {"type": "pingpong", "run_ns": 1000, "peer": "a"}},
                                    {"name": "c", "pattern": {"type": "run_sleep", "run_ns": 20000, "sleep_ns": 500000}})"),
                        flat(1));
  CHECK(s->is_sound());
  CHECK(s->figures().fibers()[2].wake.max() <= 2 * 500 * us);
  CHECK(s->figures().fibers()[2].loops > 90);
}

TEST_CASE("sparse work on many workers is not spent on searching") {  // golang #28808
  const auto s = played(workload(30 * ms, 10 * ms,
                                 R"({"name": "f", "count": 2500, "pattern": {"type": "run_sleep", "run_ns": 5000, "sleep_ns": 20000000, "spread": 50}})"),
                        "synthetic:pack:1 [numa] l3:8(size=32MB) l2:8(size=1MB) core:1 pu:2");
  CHECK(s->is_sound());
  const double whole = static_cast<double>(s->figures().measured()) * 128;
  CHECK(static_cast<double>(s->figures().all_spent()[3]) < 0.1 * whole);
}

TEST_CASE("one long and many short ones, submitted at once: others take the short ones") {  // stdexec #1305
  const auto s = played(workload(20 * ms, 0,
                                 R"({"name": "long", "worker": 0, "pattern": {"type": "once", "run_ns": 10000000}},
                                    {"name": "short", "worker": 0, "count": 200, "pattern": {"type": "once", "run_ns": 100000}})"),
                        flat(8));
  CHECK(s->is_sound());
  CHECK(s->figures().fibers()[1].response.count() == 200);
  CHECK(s->figures().fibers()[1].response.max() <= 4500 * us);  // 200 * 100 us by 7 to 8 workers take 2.9 ms
  CHECK(s->figures().fibers()[0].response.max() <= 14 * ms);
}

TEST_CASE("the idle class finds idle workers at low load and probes nobody at full load") {  // Linux, early 2026
  const std::string light = R"({"name": "i", "count": 32, "policy": "idle", "pattern": {"type": "run_sleep", "run_ns": 100000, "sleep_ns": 2000000, "spread": 30}})";
  const auto at_ease = played(workload(100 * ms, 10 * ms, light), flat(16));
  CHECK(at_ease->is_sound());
  CHECK(wait_p99(*at_ease, scheduler::policy::idle) <= wake + 15 * us);
  const std::string heavy = R"({"name": "i", "count": 640, "policy": "idle", "pattern": {"type": "run_sleep", "run_ns": 100000, "sleep_ns": 2000000, "spread": 30}})";
  const auto full = played(workload(60 * ms, 20 * ms, heavy), flat(16));
  sim::run_request other = asked(workload(60 * ms, 20 * ms, heavy), flat(16));
  other.placement = "local";
  const auto accepting = played(std::move(other));
  CHECK(full->is_sound());
  const auto loops = [](const auto& s) { return static_cast<double>(s->figures().fibers()[0].loops); };
  CHECK(loops(full) > 0.99 * loops(accepting));
  std::uint64_t probes = 0;
  for (const auto& w : full->all().workers) probes += w->probes;
  CHECK(static_cast<double>(probes) < 0.05 * loops(full));
}

TEST_CASE("a heavy fiber comes to a fast CPU") {  // scx_lavd #3259
  const auto s = played(workload(60 * ms, 8 * ms, hog("heavy", R"("worker": 5, )")), xml("hybrid_x86_2p4e"));
  CHECK(s->is_sound());
  double fast = 0;
  for (const auto& w : s->all().workers) {
    if (w->capacity == 1024) fast += busy(*s, w->index);
  }
  CHECK(fast > 0.99);
}

TEST_CASE("ten groups of messages on a few workers") {  // scx_flash #3624
  sim::run_request r;
  r.what = sim::find_workload("messaging");
  r.what.fibers[0].count = 10;
  r.topology = two_caches();
  CHECK(played(std::move(r))->is_sound());
}

TEST_CASE("who may not migrate is never taken, another is") {  // scx_lavd #3198
  const auto s = played(workload(50 * ms, 5 * ms, hog("tied", R"("worker": 0, "pinned": true, )") + "," + hog("free", R"("count": 2, "worker": 0, )")),
                        flat(2));
  CHECK(s->is_sound());
  CHECK(s->played().fibers()[0].home == 0);
  CHECK(busy(*s, 0) > 0.99);
  CHECK(busy(*s, 1) > 0.99);
}

TEST_CASE("flipping between idle and busy does not burn time on looking for loot") {  // why Linux has NI_RANDOM
  sim::run_request r;
  r.what = sim::find_workload("idle-storm");
  r.topology = flat(8);
  const auto s = played(std::move(r));
  CHECK(s->is_sound());
  std::uint64_t probes = 0;
  for (const auto& w : s->all().workers) probes += w->probes;
  const double spent = static_cast<double>(probes) * static_cast<double>(s->request().how.price.probe);
  CHECK(spent < 0.05 * 8 * static_cast<double>(s->figures().measured()));
}

TEST_CASE("three hogs on two workers get two thirds each") {
  const auto s = played(workload(2'000 * ms, 20 * ms, hog("hog", R"("count": 3, )")), flat(2));
  CHECK(s->is_sound());
  CHECK(s->figures().shares().fibers == 3);
  CHECK(s->figures().shares().worst < 0.05);
  sim::run_request r = asked(workload(2'000 * ms, 20 * ms, hog("hog", R"("count": 3, )")), flat(2));
  r.placement = "local";  // without pulls one has a worker of its own
  CHECK(played(std::move(r))->figures().shares().worst > 0.2);
}

TEST_CASE("two who wake at once get a worker each") {  // wakes that stack on one idle CPU
  const auto s = played(workload(200 * ms, 20 * ms,
                                 hog("hog", R"("count": 2, "worker": 0, "affinity": [0, 1], )") + R"(,
                                 {"name": "pair", "count": 2, "worker": 0, "pattern": {"type": "periodic", "run_ns": 2000000, "period_ns": 10000000}})"),
                        flat(4));
  CHECK(s->is_sound());
  CHECK(s->figures().fibers()[1].wake.max() <= wake + 15 * us);
}

TEST_CASE("short normal fibers beside an idle-class hog") {  // tokio's LIFO slot under EEVDF
  const auto s = played(workload(200 * ms, 20 * ms,
                                 hog("hog", R"("policy": "idle", )") + R"(,
                                 {"name": "short", "count": 4, "pattern": {"type": "run_sleep", "run_ns": 5000, "sleep_ns": 100000, "spread": 50}})"),
                        flat(1));
  CHECK(s->is_sound());
  CHECK(s->figures().fibers()[1].wake.quantile(0.99) < 50 * us);
  CHECK(share_of(*s, 0) > 0.5);
}

TEST_CASE("a thousand workers") {
  sim::run_request r = asked(workload(5 * ms, 1 * ms,
                                      R"({"name": "f", "count": 5000, "pattern": {"type": "run_sleep", "run_ns": 20000, "sleep_ns": 200000, "spread": 30}})"),
                             "synthetic:pack:16 [numa] l3:1 core:64 pu:2");
  r.workers = 1024;
  const auto s = played(std::move(r));
  CHECK(s->is_sound());
  CHECK(s->figures().fibers()[0].loops > 0);
}

}  // namespace lagom::test
