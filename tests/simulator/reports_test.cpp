// SPDX-License-Identifier: BSL-1.0
// Each workload that comes along, on several machines; the same run twice; checkers that see what is broken.
#include "driver.hpp"

namespace lagom::test {

namespace {

const char* const machines[] = {
    "synthetic:pack:1 [numa] l3:1 core:8 pu:2",                       // one socket
    "synthetic:pack:1 [numa] l3:1(size=64MB) l2:16(size=2MB) core:4 pu:1",  // clusters
    "synthetic:pack:2 die:2 [numa] l3:2 core:4 pu:2",                 // dies
};

sim::run_request shortened(const std::string& name, const std::string& topology) {
  sim::run_request r;
  r.what = sim::find_workload(name);
  r.what.duration = std::min(r.what.duration, 30 * ms);
  r.what.warmup = std::min(r.what.warmup, 2 * ms);
  r.topology = topology;
  return r;
}

// Two hogs of different weight on one worker, and another worker beside.
const std::string unequal_hogs = workload(100 * ms, 0,
    R"({"name": "a", "worker": 0, "affinity": [0], "pattern": {"type": "busy"}},
       {"name": "b", "worker": 0, "affinity": [0], "nice": 5, "pattern": {"type": "busy"}},
       {"name": "sleeper", "worker": 0, "pattern": {"type": "run_sleep", "run_ns": 10000, "sleep_ns": 100000}})");

std::vector<std::string> found_with(const std::string& text, const sim::faults& wrong) {
  sim::run_request r = asked(text, flat(2));
  r.wrong = wrong;
  sim::simulation s(std::move(r));
  s.run();
  std::vector<std::string> rules;
  for (const auto& v : s.judged().found()) {
    rules.push_back(v.rule);
  }
  return rules;
}

}  // namespace

TEST_CASE("every workload keeps every rule on every machine") {
  for (const auto& w : sim::builtin_workloads()) {
    for (const char* machine : machines) {
      CAPTURE(w.name);
      CAPTURE(machine);
      CHECK(played(shortened(std::string(w.name), machine))->is_sound());
    }
    for (const char* file : {"hybrid_x86_2p4e", "arm_1_3_4"}) {
      CAPTURE(file);
      CHECK(played(shortened(std::string(w.name), xml(file)))->is_sound());
    }
  }
}

TEST_CASE("the same run twice gives the same reports, byte for byte, and another seed gives others") {
  for (const char* name : {"schbench", "fork-storm", "hogs+sleepers"}) {
    sim::run_request r = shortened(name, machines[0]);
    const auto once = played(r), twice = played(r);
    CHECK(sim::json_report(*once).dump() == sim::json_report(*twice).dump());
    CHECK(sim::text_report(*once) == sim::text_report(*twice));
    CHECK(sim::html_report(*once) == sim::html_report(*twice));
    r.how.seed = 2;
    CHECK(sim::json_report(*once)["wait"] != sim::json_report(*played(r))["wait"]);
  }
}

TEST_CASE("the page loads nothing from elsewhere") {
  const std::string page = sim::html_report(*played(shortened("messaging", machines[0])));
  CHECK(page.find("<script") == std::string::npos);
  CHECK(page.find("href=") == std::string::npos);
  CHECK(page.find("src=") == std::string::npos);
  CHECK(page.find("<svg") != std::string::npos);
}

TEST_CASE("the time of all workers is accounted for, and that of the fibers is the workers'") {
  const auto s = played(shortened("hogs+sleepers", machines[0]));
  const auto& m = s->figures();
  nanos served = 0, spent = 0;
  for (const auto& f : m.fibers()) served += f.served;
  for (const nanos n : m.all_spent()) spent += n;
  CHECK(spent == m.measured() * static_cast<nanos>(m.workers().size()));
  CHECK(served == m.all_spent()[0] + m.all_spent()[1] + m.all_spent()[2]);
}

TEST_CASE("each checker finds the fault that it is for, and nothing without one") {
  CHECK(found_with(unequal_hogs, {}).empty());
  CHECK(found_with(unequal_hogs, {.lose_wake = 50}) == std::vector<std::string>{"lost fiber"});
  CHECK(found_with(unequal_hogs, {.ignores_weights = true}) == std::vector<std::string>{"share"});
  const auto lagging = found_with(unequal_hogs, {.ignores_preemption = true});
  CHECK(std::find(lagging.begin(), lagging.end(), "lag") != lagging.end());
  const std::string two_hogs = workload(40 * ms, 0, R"({"name": "hog", "count": 2, "worker": 0, "pattern": {"type": "busy"}})");
  CHECK(found_with(two_hogs, {}).empty());
  CHECK(found_with(two_hogs, {.never_steals = true}) == std::vector<std::string>{"idle while runnable"});
}

TEST_CASE("attributes change while fibers run") {
  std::string text = workload(40 * ms, 0,
      R"({"name": "a", "pattern": {"type": "busy"}}, {"name": "b", "pattern": {"type": "busy"}})");
  text.insert(text.size() - 1, R"(, "events": [{"at_ns": 20000000, "fiber": "a", "policy": "idle"}])");
  const auto s = played(text, flat(1));
  CHECK(share_of(*s, 0) == doctest::Approx(0.25).epsilon(0.03));
  CHECK(share_of(*s, 1) == doctest::Approx(0.75).epsilon(0.03));
}

TEST_CASE("wrong workloads are refused with place and reason") {
  const auto why = [](const std::string& text) -> std::string {
    try {
      sim::read_workload(sim::json::parse(text));
    } catch (const sim::input_error& e) {
      return e.what();
    }
    return "accepted";
  };
  CHECK(why("[]").find("top level") != std::string::npos);
  CHECK(why(R"({"name": "x", "fibers": []})").find("'duration_ns' is missing") != std::string::npos);
  CHECK(why(workload(1, 0, R"({"name": "a"})")).find("fibers[0]: 'pattern' is missing") != std::string::npos);
  CHECK(why(workload(1, 0, R"({"name": "a", "pattern": {"type": "nap"}})")).find("valid: busy") != std::string::npos);
  CHECK(why(workload(1, 0, R"({"name": "a", "pattern": {"type": "busy", "run_ns": 1}})")).find("has no 'run_ns'") != std::string::npos);
  CHECK(why(workload(1, 0, R"({"name": "a", "nice": 20, "pattern": {"type": "busy"}})")).find("from -20 to 19") != std::string::npos);
  CHECK(why(workload(1, 0, R"({"name": "a", "pattern": {"type": "pingpong", "run_ns": 1, "peer": "b"}})")).find("no fiber is named \"b\"") !=
        std::string::npos);
  CHECK_THROWS_AS(played(workload(1, 0, R"({"name": "a", "worker": 2, "pattern": {"type": "busy"}})"), flat(2)), sim::input_error);
  CHECK_THROWS_AS(sim::find_workload("nothing"), sim::input_error);
}

}  // namespace lagom::test
