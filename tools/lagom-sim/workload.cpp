// SPDX-License-Identifier: BSL-1.0
#include "workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "fields.hpp"

namespace lagom::sim {

namespace {

using scheduler::policy;

constexpr nanos longest = 1'000'000'000'000'000;  // 11 days
constexpr std::int64_t most_fibers = 10'000'000;
constexpr std::int64_t most_workers = 1 << 16;

struct policy_name {
  std::string_view name;
  policy kind;
};
constexpr policy_name policies[] = {{"normal", policy::normal}, {"batch", policy::batch}, {"idle", policy::idle}};

policy read_policy(const fields& from) {
  const std::string given = from.text("policy");
  for (const auto& p : policies) {
    if (p.name == given) {
      return p.kind;
    }
  }
  from.refuse(fmt::format("'policy' is \"{}\"; valid: normal, batch, idle", given));
}

std::vector<unsigned> read_affinity(const fields& from) {
  const json& list = *from.find("affinity");
  if (!list.is_array()) {
    from.refuse(fmt::format("'affinity' must be an array of worker indexes such as [0, 1], is {}", list.type_name()));
  }
  std::vector<unsigned> result;
  for (const json& item : list) {
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() >= static_cast<std::uint64_t>(most_workers)) {
      from.refuse(fmt::format("'affinity' must hold worker indexes from 0, holds {}", item.dump()));
    }
    result.push_back(item.get<unsigned>());
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

std::optional<unsigned> read_clamp(const fields& from, const char* name) {
  if (!from.has(name)) {
    return std::nullopt;
  }
  return static_cast<unsigned>(from.integer(name, 0, 1024));
}

// Which members a kind of pattern has, besides "type".
struct pattern_form {
  std::string_view name;
  behaviour what;
  std::initializer_list<std::string_view> required;
  std::initializer_list<std::string_view> optional;
};
const pattern_form forms[] = {
    {"busy", behaviour::busy, {}, {"polite"}},
    {"once", behaviour::once, {"run_ns"}, {"spread", "polite"}},
    {"run_sleep", behaviour::run_sleep, {"run_ns", "sleep_ns"}, {"spread", "polite", "times"}},
    {"periodic", behaviour::periodic, {"run_ns", "period_ns"}, {"spread", "polite", "times"}},
    {"pingpong", behaviour::pingpong, {"run_ns", "peer"}, {"spread", "polite", "first", "times"}},
    {"yield", behaviour::yield, {}, {"run_ns", "spread", "polite", "times"}},
    {"fork", behaviour::fork, {"run_ns", "period_ns"}, {"spread", "polite", "burst", "times"}},
    {"messages", behaviour::messages, {"run_ns", "senders", "receivers"}, {"spread", "polite", "times", "capacity"}},
    {"requests", behaviour::requests, {"run_ns", "servers"}, {"spread", "polite", "dispatch_ns", "sleep_ns"}},
};

const pattern_form& form_of(const fields& from) {
  const std::string type = from.text("type");
  std::string valid;
  for (const pattern_form& f : forms) {
    if (f.name == type) {
      return f;
    }
    valid += (valid.empty() ? "" : ", ") + std::string(f.name);
  }
  from.refuse(fmt::format("'type' is \"{}\"; valid: {}", type, valid));
}

void check_members(const fields& from, const pattern_form& form) {
  for (const std::string_view name : form.required) {
    if (!from.has(std::string(name).c_str())) {
      from.refuse(fmt::format("a pattern \"{}\" needs '{}'", form.name, name));
    }
  }
  const auto is_known = [&](std::string_view name) {
    const auto is_in = [&](const auto& list) { return std::find(list.begin(), list.end(), name) != list.end(); };
    return name == "type" || is_in(form.required) || is_in(form.optional);
  };
  for (const auto& member : from.object().items()) {
    if (!is_known(member.key())) {
      const auto both = fmt::format("{}{}{}", fmt::join(form.required, ", "), form.required.size() != 0 ? ", " : "",
                                    fmt::join(form.optional, ", "));
      from.refuse(fmt::format("a pattern \"{}\" has no '{}'; valid here: type, {}", form.name, member.key(), both));
    }
  }
}

pattern read_pattern(const json& object, const std::string& where) {
  const fields from(object, where);
  const pattern_form& form = form_of(from);
  check_members(from, form);
  pattern p;
  p.what = form.what;
  p.run = from.integer_or("run_ns", 0, 0, longest);
  p.sleep = from.integer_or("sleep_ns", 0, 0, longest);
  p.period = from.integer_or("period_ns", 0, 1, longest);
  p.dispatch = from.integer_or("dispatch_ns", 0, 0, longest);
  p.spread = static_cast<int>(from.integer_or("spread", 0, 0, 100));
  p.first = from.flag_or("first", false);
  p.polite = from.flag_or("polite", true);
  p.burst = from.integer_or("burst", 1, 1, most_fibers);
  p.times = from.integer_or("times", 0, 1, longest);
  p.senders = from.integer_or("senders", 1, 1, most_fibers);
  p.receivers = from.integer_or("receivers", 1, 1, most_fibers);
  p.servers = from.integer_or("servers", 1, 1, most_fibers);
  p.capacity = from.integer_or("capacity", p.capacity, 1, longest);
  if (from.has("peer")) {
    p.peer = from.text("peer");
  }
  return p;
}

traits read_traits(const fields& from) {
  traits t;
  if (from.has("policy")) {
    t.kind = read_policy(from);
  }
  t.nice = static_cast<int>(from.integer_or("nice", 0, scheduler::nice_min, scheduler::nice_max));
  t.slice = from.integer_or("slice_ns", 0, 0, scheduler::slice_limit);
  t.util_min = read_clamp(from, "util_min");
  t.util_max = read_clamp(from, "util_max");
  if (t.util_min.value_or(0) > t.util_max.value_or(1024)) {
    from.refuse(fmt::format("'util_min' ({}) must not be above 'util_max' ({})", *t.util_min, *t.util_max));
  }
  if (from.has("affinity")) {
    t.affinity = read_affinity(from);
  }
  t.pinned = from.flag_or("pinned", false);
  return t;
}

fiber_spec read_fibers(const json& object, const std::string& where) {
  const fields from(object, where);
  from.allow_only({"name", "count", "policy", "nice", "slice_ns", "util_min", "util_max", "affinity", "pinned", "start_ns",
                   "worker", "pattern"});
  fiber_spec f;
  f.name = from.text("name");
  f.is_numbered = from.has("count");
  f.count = from.integer_or("count", 1, 1, most_fibers);
  f.attributes = read_traits(from);
  f.start = from.integer_or("start_ns", 0, 0, longest);
  if (from.has("worker")) {
    f.home = static_cast<unsigned>(from.integer("worker", 0, most_workers - 1));
  }
  const json* does = from.find("pattern");
  if (does == nullptr) {
    from.refuse("'pattern' is missing: an object such as {\"type\": \"busy\"}");
  }
  f.does = read_pattern(*does, where + ".pattern");
  return f;
}

change read_change(const json& object, const std::string& where) {
  const fields from(object, where);
  from.allow_only({"at_ns", "fiber", "policy", "nice", "slice_ns", "util_min", "util_max", "affinity"});
  change c;
  c.at = from.integer("at_ns", 0, longest);
  c.who = from.text("fiber");
  if (from.has("policy")) {
    c.kind = read_policy(from);
  }
  if (from.has("nice")) {
    c.nice = static_cast<int>(from.integer("nice", scheduler::nice_min, scheduler::nice_max));
  }
  if (from.has("slice_ns")) {
    c.slice = from.integer("slice_ns", 0, scheduler::slice_limit);
  }
  c.util_min = read_clamp(from, "util_min");
  c.util_max = read_clamp(from, "util_max");
  if (from.has("affinity")) {
    c.affinity = read_affinity(from);
  }
  return c;
}

template <class Read>
auto read_array(const fields& from, const char* name, Read read) {
  std::vector<decltype(read(json(), std::string()))> result;
  const json* list = from.find(name);
  if (list == nullptr) {
    return result;
  }
  if (!list->is_array()) {
    from.refuse(fmt::format("'{}' must be an array, is {}", name, list->type_name()));
  }
  for (std::size_t i = 0; i < list->size(); ++i) {
    result.push_back(read((*list)[i], fmt::format("{}[{}]", name, i)));
  }
  return result;
}

nanos read_moment(const json& value, const std::string& where) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > static_cast<std::uint64_t>(longest)) {
    throw input_error(where, fmt::format("must be a time in nanoseconds, is {}", value.dump()));
  }
  return value.get<nanos>();
}

// What can only be judged when all is read.
void check(const workload& w) {
  const auto is_there = [&](const std::string& name) {
    return std::any_of(w.fibers.begin(), w.fibers.end(), [&](const fiber_spec& f) {
      if (!f.is_numbered) {
        return f.name == name;
      }
      const bool begins = name.size() > f.name.size() && name.compare(0, f.name.size(), f.name) == 0;
      const std::string number = begins ? name.substr(f.name.size()) : "";
      const bool is_number = begins && number.size() <= 8 && number.find_first_not_of("0123456789") == std::string::npos;
      return is_number && (number == "0" || number.front() != '0') && std::stoll(number) < f.count;
    });
  };
  for (std::size_t i = 0; i < w.fibers.size(); ++i) {
    const fiber_spec& f = w.fibers[i];
    if (f.does.what == behaviour::pingpong && !is_there(f.does.peer)) {
      throw input_error(fmt::format("fibers[{}].pattern", i), fmt::format("no fiber is named \"{}\"", f.does.peer));
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (w.fibers[k].name == f.name) {
        throw input_error(fmt::format("fibers[{}]", i), fmt::format("the name \"{}\" is taken by fibers[{}]", f.name, k));
      }
    }
  }
  for (std::size_t i = 0; i < w.changes.size(); ++i) {
    if (!is_there(w.changes[i].who)) {
      throw input_error(fmt::format("events[{}]", i), fmt::format("no fiber is named \"{}\"; those of a \"count\" are "
                                                                  "numbered from 0", w.changes[i].who));
    }
  }
}

}  // namespace

std::string_view to_string(policy kind) { return policies[static_cast<std::size_t>(kind)].name; }

workload read_workload(const json& document) {
  if (!document.is_object()) {
    throw input_error("top level", "must be an object with \"name\", \"duration_ns\" and \"fibers\"");
  }
  const fields from(document, "top level");
  from.allow_only({"name", "about", "duration_ns", "warmup_ns", "phases_ns", "fibers", "events"});
  workload w;
  w.name = from.text("name");
  w.about = from.has("about") ? from.text("about") : "";
  w.duration = from.integer("duration_ns", 1, longest);
  w.warmup = from.integer_or("warmup_ns", 0, 0, w.duration - 1);
  if (from.find("fibers") == nullptr) {
    from.refuse("'fibers' is missing: an array of objects with \"name\" and \"pattern\"");
  }
  w.fibers = read_array(from, "fibers", read_fibers);
  w.changes = read_array(from, "events", read_change);
  w.phases = read_array(from, "phases_ns", read_moment);
  check(w);
  return w;
}

workload read_workload_file(const std::string& path) {
  const json document = read_json_file(path);
  try {
    return read_workload(document);
  } catch (const input_error& e) {
    throw input_error(path, e.what());
  }
}

workload find_workload(const std::string& name_or_path) {
  for (const builtin_workload& b : builtin_workloads()) {
    if (b.name == name_or_path) {
      return read_workload(json::parse(b.text));
    }
  }
  if (name_or_path.find_first_of("./") == std::string::npos) {
    std::string names;
    for (const builtin_workload& b : builtin_workloads()) {
      names += (names.empty() ? "" : ", ") + std::string(b.name);
    }
    throw input_error(name_or_path, fmt::format("there is no such workload; there are: {}; or give a file, as ./{}.json",
                                                names, name_or_path));
  }
  return read_workload_file(name_or_path);
}

}  // namespace lagom::sim
