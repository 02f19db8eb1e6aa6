// SPDX-License-Identifier: BSL-1.0
// Reads scenario files. All errors are input_error with the file, the place in it, and what would be right.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "scenario.hpp"

namespace lagom::scenarios {

namespace {

using json = nlohmann::json;

constexpr nanos longest_time = 3'600'000'000'000;
constexpr int cpu_max = 1023;
constexpr nanos count_max = 10'000;

struct limits {
  nanos least = 0;
  nanos most = longest_time;
};

/// One object of the file, with the path that leads to it.
class node {
 public:
  node(const json& value, std::string where) : value_(value), where_(std::move(where)) {
    if (!value.is_object()) {
      refuse(fmt::format("must be an object, is {}", value.type_name()));
    }
  }

  [[noreturn]] void refuse(const std::string& why) const { throw input_error(fmt::format("{}: {}", where_, why)); }
  const std::string& where() const { return where_; }
  bool has(const char* key) const { return value_.contains(key); }

  void allow_only(std::initializer_list<std::string_view> keys) const {
    for (const auto& member : value_.items()) {
      if (std::find(keys.begin(), keys.end(), member.key()) == keys.end()) {
        refuse(fmt::format("unknown key '{}'; there are: {}", member.key(), fmt::join(keys, ", ")));
      }
    }
  }

  const json& required(const char* key, std::string_view meaning) const {
    const auto found = value_.find(key);
    if (found == value_.end()) {
      refuse(fmt::format("'{}' is missing: {}", key, meaning));
    }
    return *found;
  }

  nanos number(const char* key, limits range) const {
    return whole(required(key, fmt::format("a whole number from {} to {}", range.least, range.most)), key, range);
  }
  nanos number_or(const char* key, nanos otherwise, limits range) const {
    return has(key) ? number(key, range) : otherwise;
  }

  nanos whole(const json& value, std::string_view key, limits range) const {
    // A float that is whole is fine: other programs write 1e9.
    const double size = value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
    const bool is_inside = size >= static_cast<double>(range.least) && size <= static_cast<double>(range.most);
    if (!is_inside || static_cast<double>(value.get<nanos>()) != size) {
      refuse(fmt::format("'{}' must be a whole number from {} to {}, is {}", key, range.least, range.most, value.dump()));
    }
    return value.get<nanos>();
  }

  bool flag_or(const char* key, bool otherwise) const {
    if (!has(key)) {
      return otherwise;
    }
    const json& value = value_.at(key);
    if (!value.is_boolean()) {
      refuse(fmt::format("'{}' must be true or false, is {}", key, value.dump()));
    }
    return value.get<bool>();
  }

  std::string text(const char* key, std::string_view meaning) const {
    const json& value = required(key, meaning);
    if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
      refuse(fmt::format("'{}' must be {}, is {}", key, meaning, value.dump()));
    }
    return value.get<std::string>();
  }

  const json& list(const char* key, std::string_view meaning) const {
    const json& value = required(key, meaning);
    if (!value.is_array()) {
      refuse(fmt::format("'{}' must be {}, is {}", key, meaning, value.type_name()));
    }
    return value;
  }

  node child(const json& value, std::string_view name) const { return {value, fmt::format("{}: {}", where_, name)}; }

 private:
  const json& value_;
  std::string where_;
};

policy parse_policy(const node& from) {
  constexpr auto meaning = "one of \"normal\", \"batch\", \"idle\"";
  const std::string name = from.text("policy", meaning);
  for (const auto which : {policy::normal, policy::batch, policy::idle}) {
    if (name == name_of(which)) {
      return which;
    }
  }
  from.refuse(fmt::format("'policy' must be {}, is \"{}\"", meaning, name));
}

event parse_changes(const node& from) {
  event out;
  if (from.has("policy")) {
    out.policy = parse_policy(from);
  }
  if (from.has("nice")) {
    constexpr limits nice_range{-20, 19};
    out.nice = static_cast<int>(from.number("nice", nice_range));
  }
  if (from.has("slice_ns")) {
    out.slice = from.number("slice_ns", {});
  }
  return out;
}

struct kind_of_pattern {
  std::string_view name;
  pattern_kind kind;
  bool has_run, has_sleep, has_period;
};
constexpr kind_of_pattern kinds[] = {
    {"busy", pattern_kind::busy, false, false, false},    {"run_sleep", pattern_kind::run_sleep, true, true, false},
    {"periodic", pattern_kind::periodic, true, false, true}, {"pingpong", pattern_kind::pingpong, true, false, false},
    {"yield", pattern_kind::yield, false, false, false},  {"fork", pattern_kind::fork, true, false, true},
};

const kind_of_pattern& parse_kind(const node& from) {
  std::string known;
  for (const auto& kind : kinds) {
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", kind.name);
  }
  const std::string name = from.text("type", fmt::format("one of {}", known));
  for (const auto& kind : kinds) {
    if (kind.name == name) {
      return kind;
    }
  }
  from.refuse(fmt::format("'type' must be one of {}, is \"{}\"", known, name));
}

/// Partners are named, and the name may come later in the file.
struct named_peer {
  std::size_t thread;
  std::string name;
  std::string where;
};

class reader {
 public:
  reader(const json& value, const std::string& origin) : root_(value, origin) {}

  scenario read() {
    root_.allow_only({"name", "duration_ns", "warmup_ns", "cpu", "phases_ns", "events", "threads"});
    out_.name = root_.text("name", "the scenario's name");
    out_.duration = root_.number("duration_ns", {1, longest_time});
    out_.warmup = root_.number_or("warmup_ns", 0, {0, out_.duration - 1});
    out_.cpu = static_cast<int>(root_.number_or("cpu", 0, {0, cpu_max}));
    const json& threads = root_.list("threads", "a list of threads");
    if (threads.empty()) {
      root_.refuse("'threads' must not be empty");
    }
    for (std::size_t i = 0; i < threads.size(); ++i) {
      read_thread(root_.child(threads[i], fmt::format("threads[{}]", i)));
    }
    for (const auto& peer : peers_) {
      connect(peer);
    }
    read_phases();
    read_events();
    return std::move(out_);
  }

 private:
  void read_thread(const node& from) {
    from.allow_only({"name", "count", "policy", "nice", "slice_ns", "cpu", "home_cpu", "start_ns", "pattern"});
    thread_spec spec;
    spec.name = from.text("name", "the thread's name");
    spec.sched = parse_changes(from).applied_to({});
    spec.cpu = static_cast<int>(from.number_or("cpu", out_.cpu, {any_cpu, cpu_max}));
    spec.home_cpu = static_cast<int>(from.number_or("home_cpu", spec.cpu, {any_cpu, cpu_max}));
    spec.start = from.number_or("start_ns", 0, {0, out_.duration});
    const node shape = from.child(from.required("pattern", "an object with the pattern's type"), "pattern");
    const nanos count = from.number_or("count", 1, {1, count_max});
    for (nanos i = 0; i < count; ++i) {
      thread_spec one = spec;
      one.name += from.has("count") ? std::to_string(i) : std::string{};
      if (index_of(one.name)) {
        from.refuse(fmt::format("there is a thread named '{}' already", one.name));
      }
      one.pattern = read_pattern(shape);
      out_.threads.push_back(std::move(one));
    }
  }

  pattern read_pattern(const node& from) {
    from.allow_only({"type", "run_ns", "sleep_ns", "period_ns", "peer", "first"});
    const auto& kind = parse_kind(from);
    pattern out;
    out.kind = kind.kind;
    const auto time = [&](const char* key, bool is_needed, nanos least) {
      return is_needed ? from.number(key, {least, longest_time}) : from.number_or(key, 0, {});
    };
    out.run = time("run_ns", kind.has_run, 0);
    out.sleep = time("sleep_ns", kind.has_sleep, 1);
    out.period = time("period_ns", kind.has_period, 1);
    if (out.kind == pattern_kind::pingpong) {
      peers_.push_back({out_.threads.size(), from.text("peer", "the name of the other thread"), from.where()});
      out.has_token = from.flag_or("first", false);
    }
    return out;
  }

  void connect(const named_peer& peer) {
    const auto index = index_of(peer.name);
    if (!index || out_.threads[*index].pattern.kind != pattern_kind::pingpong) {
      throw input_error(fmt::format("{}: 'peer' must be another thread with the pattern pingpong; '{}' {}", peer.where,
                                    peer.name, index ? "has another pattern" : "is no thread"));
    }
    out_.threads[peer.thread].pattern.peer = *index;
  }

  void read_phases() {
    if (!root_.has("phases_ns")) {
      return;
    }
    for (const json& time : root_.list("phases_ns", "a list of times")) {
      const nanos least = out_.phases.empty() ? 0 : out_.phases.back();
      out_.phases.push_back(root_.whole(time, "phases_ns", {least, out_.duration}));
    }
  }

  void read_events() {
    if (!root_.has("events")) {
      return;
    }
    const json& all = root_.list("events", "a list of changes");
    for (std::size_t i = 0; i < all.size(); ++i) {
      const node from = root_.child(all[i], fmt::format("events[{}]", i));
      from.allow_only({"at_ns", "thread", "policy", "nice", "slice_ns"});
      event change = parse_changes(from);
      change.at = from.number("at_ns", {0, out_.duration});
      const std::string who = from.text("thread", "the name of a thread");
      const auto index = index_of(who);
      if (!index) {
        from.refuse(fmt::format("'thread' must be the name of a thread; '{}' is none", who));
      }
      change.thread = *index;
      out_.events.push_back(change);
    }
    std::stable_sort(out_.events.begin(), out_.events.end(), [](const auto& a, const auto& b) { return a.at < b.at; });
  }

  std::optional<std::size_t> index_of(const std::string& name) const {
    const auto found = std::find_if(out_.threads.begin(), out_.threads.end(),
                                    [&](const thread_spec& thread) { return thread.name == name; });
    return found == out_.threads.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - out_.threads.begin()));
  }

  node root_;
  scenario out_{};
  std::vector<named_peer> peers_{};
};

}  // namespace

scenario parse(std::string_view text, const std::string& origin) {
  json value;
  try {
    value = json::parse(text);
  } catch (const json::parse_error& e) {
    throw input_error(fmt::format("{}: not valid JSON: {}", origin, e.what()));
  }
  return reader(value, origin).read();
}

scenario read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  if (!in || !(text << in.rdbuf())) {
    throw input_error(fmt::format("{}: cannot be read; the path of a scenario file is needed", path));
  }
  return parse(text.str(), path);
}

}  // namespace lagom::scenarios
