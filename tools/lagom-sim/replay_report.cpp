// SPDX-License-Identifier: BSL-1.0
// What a replay tells: virtual times as signed integers in 2^-10 ns, real times in ns.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "replay.hpp"

namespace lagom::sim {

namespace {

std::int64_t printed(scheduler::virtual_time t) { return static_cast<std::int64_t>(t.ticks); }

constexpr std::size_t most_stints = 300;
constexpr std::size_t shown_stints = 150;

// To six decimals, halves as the exact binary value falls.
double share_of(std::int64_t part, std::int64_t whole) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6f", static_cast<double>(part) / static_cast<double>(whole));
  return std::strtod(text, nullptr);
}

}  // namespace

json replay::snapshot(std::size_t index, const std::string& label) const {
  const scheduler::virtual_time v = queue_.virtual_now();
  json entities = json::object();
  for (const actor* a : in_order_) {
    json one;
    one["v"] = printed(a->vruntime);
    one["d"] = printed(a->virtual_deadline);
    one["vlag"] = a->vlag.ticks;
    one["w"] = a->share.units();
    one["slice"] = a->slice;
    one["exec"] = a->sum_exec;
    one["on_rq"] = a->on_rq;
    one["delayed"] = a->delayed;
    if (a->on_rq) {
      one["lag"] = (v - a->vruntime).ticks;
      one["eligible"] = queue_.is_eligible(*a);
    }
    entities[a->name] = std::move(one);
  }
  json result;
  result["event"] = index;
  result["ev"] = label;
  result["t"] = now_;
  result["curr"] = current() != nullptr ? json(current()->name) : json(nullptr);
  result["V"] = printed(v);
  result["nr_queued"] = queue_.queued();
  result["nr_runnable"] = queue_.runnable();
  result["need_resched"] = queue_.need_resched();
  result["protected"] = queue_.is_protected();
  result["ents"] = std::move(entities);
  return result;
}

json replay::picks() const {
  json result = json::array();
  const std::size_t shown = stints_.size() <= most_stints ? stints_.size() : shown_stints;
  for (std::size_t i = 0; i < shown; ++i) {
    result.push_back(json::array({stints_[i].first->name, stints_[i].second}));
  }
  if (shown < stints_.size()) {
    result.push_back(json::array({"...", stints_.size() - shown}));
  }
  return result;
}

json replay::summary() const {
  std::int64_t all = 0;
  for (const actor* a : in_order_) {
    all += a->sum_exec;
  }
  json result = json::object();
  for (const actor* a : in_order_) {
    json one;
    one["exec"] = a->sum_exec;
    one["share"] = share_of(a->sum_exec, std::max<std::int64_t>(all, 1));
    one["picks"] = a->picks;
    one["lag_min"] = a->lag_min;
    one["lag_max"] = a->lag_max;
    one["lat_max"] = a->wait_max;
    one["waits"] = a->waits;
    one["lat_sum"] = a->wait_sum;
    result[a->name] = std::move(one);
  }
  return result;
}

}  // namespace lagom::sim
