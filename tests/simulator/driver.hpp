// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>

#include "tools/lagom-sim/simulation.hpp"

namespace lagom::test {

using sim::nanos;
inline constexpr nanos us = 1'000, ms = 1'000'000;

// Several machines of docs/testing.md by their names there.
inline std::string two_caches() { return "synthetic:pack:1 l3:2 core:4 pu:1"; }
inline std::string flat(unsigned cores) { return "synthetic:pack:1 l3:1 core:" + std::to_string(cores) + " pu:1"; }
inline std::string xml(const std::string& name) { return "xml:" LAGOM_TOPOLOGY_GOLDEN "/" + name + ".xml"; }

inline sim::run_request asked(const std::string& text, const std::string& topology) {
  sim::run_request r;
  r.what = sim::read_workload(sim::json::parse(text));
  r.topology = topology;
  return r;
}

inline std::unique_ptr<sim::simulation> played(sim::run_request r) {
  auto s = std::make_unique<sim::simulation>(std::move(r));
  s->run();
  for (const auto& v : s->judged().found()) {
    MESSAGE(v.rule << ": " << v.what);
  }
  return s;
}
inline std::unique_ptr<sim::simulation> played(const std::string& text, const std::string& topology) {
  return played(asked(text, topology));
}

// A workload's frame around its fibers.
inline std::string workload(nanos duration, nanos warmup, const std::string& fibers) {
  return "{\"name\": \"test\", \"duration_ns\": " + std::to_string(duration) + ", \"warmup_ns\": " + std::to_string(warmup) +
         ", \"fibers\": [" + fibers + "]}";
}

inline double share_of(const sim::simulation& s, std::size_t line) {
  return static_cast<double>(s.figures().fibers()[line].served) / static_cast<double>(s.figures().measured());
}
// Part of its time that a worker ran fibers.
inline double busy(const sim::simulation& s, std::size_t worker) {
  const auto& spent = s.figures().workers()[worker].spent;
  return static_cast<double>(spent[0] + spent[1] + spent[2]) / static_cast<double>(s.figures().measured());
}

}  // namespace lagom::test
