// SPDX-License-Identifier: BSL-1.0
#include "scenario.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <ios>
#include <iterator>

#include "config.hpp"
#include "fields.hpp"
#include "scheduler/entity.hpp"

namespace lagom::sim {

namespace {

struct verb_name {
  const char* name;
  verb what;
};
constexpr verb_name verbs[] = {
    {"spawn", verb::spawn}, {"run", verb::run},         {"tick", verb::tick},     {"sched", verb::sched},
    {"wake", verb::wake},   {"block", verb::block},     {"exit", verb::exit},     {"yield", verb::yield},
    {"nice", verb::nice},   {"yield_to", verb::yield_to}, {"weight", verb::weight}, {"slice", verb::slice},
    {"idle", verb::idle},   {"base", verb::base},       {"detach", verb::detach}, {"attach", verb::attach},
    {"loop", verb::loop},
};

constexpr std::int64_t longest_run = INT64_MAX / 4;              // 73 years
constexpr std::int64_t longest_slice = scheduler::slice_limit;
constexpr std::int64_t largest_vlag = std::int64_t{1} << 50;     // 13 days

verb read_verb(const fields& from) {
  const std::string name = from.text("ev");
  std::string valid;
  for (const auto& v : verbs) {
    if (name == v.name) {
      return v.what;
    }
    valid += (valid.empty() ? "" : ", ") + std::string(v.name);
  }
  from.refuse(fmt::format("unknown event \"{}\"; valid: {}", name, valid));
}

scheduler::weight read_share(const fields& from, bool is_idle) {
  const auto units = from.integer_or("weight", 0, 0, scheduler::weight::max_units);
  const auto nice = from.integer_or("nice", 0, scheduler::nice_min, scheduler::nice_max);
  if (units != 0) {
    return scheduler::weight::of_units(static_cast<std::uint32_t>(units));
  }
  return is_idle ? scheduler::idle_weight : scheduler::weight_of_nice(static_cast<int>(nice));
}

void read_spawn(const fields& from, event& e) {
  from.allow_only({"ev", "id", "nice", "weight", "idle", "batch", "slice", "vlag", "initial", "burst", "sleep",
                   "comment"});
  e.is_idle = from.flag_or("idle", false);
  e.share = read_share(from, e.is_idle);
  e.is_batch = from.flag_or("batch", false);
  e.is_initial = from.flag_or("initial", true);
  e.slice = from.integer_or("slice", 0, 0, longest_slice);
  e.vlag = from.integer_or("vlag", 0, -largest_vlag, largest_vlag);
  e.burst = from.integer_or("burst", 0, 0, longest_run);
  e.sleep = from.integer_or("sleep", 0, 0, longest_run);
}

void read_timed(const fields& from, event& e) {
  if (e.what == verb::loop) {
    from.allow_only({"ev", "ns", "tick", "comment"});
    if (from.has("tick")) {
      e.tick = from.integer("tick", 0, longest_run);
    }
  } else {
    from.allow_only({"ev", "ns", "comment"});
  }
  e.ns = from.integer("ns", e.what == verb::base ? 1 : 0, e.what == verb::base ? longest_slice : longest_run);
}

void read_change(const fields& from, event& e) {
  if (e.what == verb::slice) {
    from.allow_only({"ev", "id", "ns", "comment"});
    e.ns = from.integer("ns", 0, longest_slice);
    return;
  }
  from.allow_only({"ev", "id", "nice", "weight", "idle", "on", "comment"});
  if (from.has("on")) {
    e.on = from.flag_or("on", false);
  }
  e.share = read_share(from, from.flag_or("idle", false) || e.on.value_or(false));
}

event read_event(const json& object, const std::string& where) {
  const fields from(object, where);
  event e;
  e.where = where;
  e.what = read_verb(from);
  switch (e.what) {
    case verb::run: case verb::loop: case verb::base:
      read_timed(from, e);
      return e;
    case verb::tick: case verb::sched: case verb::block: case verb::exit: case verb::yield:
      from.allow_only({"ev", "comment"});
      return e;
    case verb::spawn:
      read_spawn(from, e);
      break;
    case verb::nice: case verb::weight: case verb::slice: case verb::idle:
      read_change(from, e);
      break;
    case verb::wake: case verb::yield_to: case verb::detach: case verb::attach:
      from.allow_only({"ev", "id", "comment"});
      break;
  }
  e.id = from.text("id");
  return e;
}

step read_step(const json& object, const std::string& where) {
  step result;
  const fields from(object, where);
  result.repeat = from.integer_or("repeat", 1, 0, INT32_MAX);
  json plain = object;
  plain.erase("repeat");
  if (!from.has("do")) {
    result.events.push_back(read_event(plain, where));
    result.label = object.at("ev").get<std::string>();
    return result;
  }
  from.allow_only({"do", "repeat", "ev", "comment"});
  result.label = from.has("ev") ? from.text("ev") : "do";
  const json& inner = object.at("do");
  if (!inner.is_array()) {
    from.refuse(fmt::format("'do' must be an array of events, is {}", inner.type_name()));
  }
  for (std::size_t i = 0; i < inner.size(); ++i) {
    result.events.push_back(read_event(inner[i], fmt::format("{}.do[{}]", where, i)));
  }
  return result;
}

}  // namespace

scenario read_scenario(const json& document) {
  if (!document.is_object()) {
    throw input_error("top level", fmt::format("must be an object with \"events\" (or a vector with \"input\"), is {}",
                                               document.type_name()));
  }
  const bool is_vector = document.contains("input");
  const fields from(is_vector ? document.at("input") : document, is_vector ? "input" : "top level");
  const json* events = from.find("events");
  if (events == nullptr) {
    from.refuse("'events' is missing: an array of events such as {\"ev\": \"spawn\", \"id\": \"A\"}");
  }
  if (!events->is_array()) {
    from.refuse(fmt::format("'events' must be an array, is {}", events->type_name()));
  }
  scenario result;
  const json* settings = from.find("config");
  result.settings = read_config(settings == nullptr ? json::object() : *settings);
  for (std::size_t i = 0; i < events->size(); ++i) {
    result.steps.push_back(read_step((*events)[i], fmt::format("events[{}]", i)));
  }
  return result;
}

namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw input_error(path, fmt::format("cannot be read: {}", std::strerror(errno)));
  }
  try {  // a folder opens, but does not read
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  } catch (const std::ios_base::failure& e) {
    throw input_error(path, fmt::format("cannot be read: {}", e.code().message()));
  }
}

}  // namespace

json read_json_file(const std::string& path) {
  try {
    return json::parse(read_text(path));
  } catch (const json::parse_error& e) {
    std::string why = e.what();
    why.erase(0, why.find("] ") == std::string::npos ? 0 : why.find("] ") + 2);
    throw input_error(path, fmt::format("is no JSON: {}", why));
  }
}

scenario read_scenario_file(const std::string& path) {
  const json document = read_json_file(path);
  try {
    return read_scenario(document);
  } catch (const input_error& e) {
    throw input_error(path, e.what());
  }
}

}  // namespace lagom::sim
