// SPDX-License-Identifier: BSL-1.0
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "engine.hpp"

// The fibers of a workload.
namespace lagom::sim {

using scheduler::policy;

std::string engine::name_of(const fiber& f) {
  const std::string base = f.spec->is_numbered ? fmt::format("{}{}", f.spec->name, f.number) : f.spec->name;
  switch (f.spec->does.what) {
    case behaviour::messages:
      return fmt::format("{}.{}{}", base, f.is_server ? "r" : "s", f.place_in_team);
    case behaviour::requests:
      return f.is_server ? fmt::format("{}.{}", base, f.place_in_team) : base;
    default: return f.is_measured ? base : base + ".child";
  }
}

void engine::populate() {
  for (const fiber_spec& spec : what_.fibers) {
    for (std::int64_t i = 0; i < spec.count; ++i) {
      switch (spec.does.what) {
        case behaviour::messages: make_group(spec, i); break;
        case behaviour::requests: make_servers(spec, i); break;
        default: make(spec, i, spec.does.what);
      }
    }
  }
  find_peers();
}

fiber& engine::make(const fiber_spec& spec, std::int64_t number, behaviour what) {
  fiber& f = fibers_.emplace_back();
  f.spec = &spec;
  f.id = static_cast<unsigned>(fibers_.size() - 1);
  f.number = static_cast<unsigned>(number);
  f.what = what;
  f.times_left = spec.does.times;
  f.random = generator(how_.seed * 0x9e3779b97f4a7c15U + f.id);
  f.holds_token = spec.does.first;
  set_attributes(f, spec.attributes);
  return f;
}

void engine::set_attributes(fiber& f, const traits& t) {
  f.kind = t.kind;
  f.nice = t.nice;
  f.share = t.kind == policy::idle ? scheduler::idle_weight : scheduler::weight_of_nice(t.nice);
  if (wrong_.ignores_weights) {
    f.share = scheduler::nice_0_weight;
  }
  if (t.slice != 0) {
    f.has_custom_slice = true;
    f.slice = static_cast<std::uint32_t>(std::clamp(t.slice, how_.knobs.slice_min, how_.knobs.slice_max));
  }
  f.allowed = t.affinity;
  f.is_pinned = t.pinned;
  f.clamp.min = static_cast<std::uint16_t>(t.util_min.value_or(0));
  f.clamp.max = static_cast<std::uint16_t>(t.util_max.value_or(scheduler::capacity_scale));
  // Nothing is known of it: half of what there is, as in Linux; only where CPUs differ in speed does it matter.
  f.usage = scheduler::utilization(now_, 0, all_.map().is_hybrid ? scheduler::capacity_scale / 2 : 0);
}

void engine::make_group(const fiber_spec& spec, std::int64_t number) {
  group& team = groups_.emplace_back();
  for (std::int64_t i = 0; i < spec.does.receivers; ++i) {
    fiber& f = make(spec, number, behaviour::messages);
    f.is_server = true;
    f.place_in_team = static_cast<unsigned>(i);
    f.team = &team;
    f.times_left *= spec.does.senders;
    team.receivers.push_back(&f);
  }
  for (std::int64_t i = 0; i < spec.does.senders; ++i) {
    fiber& f = make(spec, number, behaviour::messages);
    f.place_in_team = static_cast<unsigned>(i);
    f.team = &team;
  }
}

void engine::make_servers(const fiber_spec& spec, std::int64_t number) {
  fiber& dispatcher = make(spec, number, behaviour::requests);
  for (std::int64_t i = 0; i < spec.does.servers; ++i) {
    fiber& f = make(spec, number, behaviour::requests);
    f.is_server = true;
    f.place_in_team = static_cast<unsigned>(i);
    f.peer = &dispatcher;
  }
}

void engine::find_peers() {
  std::unordered_map<std::string, fiber*> by_name;  // only looked up in, so its order does not matter
  for (fiber& f : fibers_) {
    if (f.what == behaviour::pingpong) {
      by_name[name_of(f)] = &f;
    }
  }
  for (fiber& f : fibers_) {
    if (f.what == behaviour::pingpong) {
      const auto found = by_name.find(f.spec->does.peer);
      if (found == by_name.end()) {
        throw input_error(what_.name, fmt::format("the peer \"{}\" of \"{}\" is no \"pingpong\"", f.spec->does.peer,
                                                  name_of(f)));
      }
      f.peer = found->second;
    }
  }
}

}  // namespace lagom::sim
