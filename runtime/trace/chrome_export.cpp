// SPDX-License-Identifier: BSL-1.0
// Format: "Trace Event Format" (Chromium project), JSON object form, phases X (complete), i (instant), M (metadata).
#include "chrome_export.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <optional>
#include <ostream>

namespace lagom::trace {
namespace {

void write_string(std::ostream& out, const std::string& text) {
  out << '"';
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out << '\\' << c;
    } else if (code < 0x20) {
      std::array<char, 8> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "\\u%04x", static_cast<unsigned>(code));
      out << escaped.data();
    } else {
      out << c;
    }
  }
  out << '"';
}

bool ends_a_stint(event_kind kind) noexcept {
  return kind == event_kind::parked || kind == event_kind::yielded || kind == event_kind::preempted ||
         kind == event_kind::exited;
}

class chrome_writer {
 public:
  chrome_writer(std::ostream& out, const chrome_names& names, std::int64_t origin, std::int64_t end)
      : out_(out), names_(names), origin_(origin), end_(end) {}

  void write(const worker_recording& worker) {
    name_track(worker);
    std::optional<event> stint;
    std::optional<event> sleep;
    for (const event& each : worker.what.events) {
      if (each.kind == event_kind::running) {
        stint = each;
      } else if (each.kind == event_kind::worker_sleeping) {
        sleep = each;
      } else if (ends_a_stint(each.kind)) {
        // The beginning may have been overwritten.
        if (stint && stint->fiber == each.fiber) {
          bar(worker.worker, *stint, each.time_ns, &each);
        }
        stint.reset();
      } else if (each.kind == event_kind::worker_awake) {
        if (sleep) {
          bar(worker.worker, *sleep, each.time_ns, nullptr);
        }
        sleep.reset();
      } else {
        instant(worker.worker, each);
      }
    }
    if (stint) {
      bar(worker.worker, *stint, end_, nullptr);
    }
    if (sleep) {
      bar(worker.worker, *sleep, end_, nullptr);
    }
  }

 private:
  void begin(const char* phase, unsigned worker) {
    out_ << (is_first_ ? "\n" : ",\n") << R"({"ph":")" << phase << R"(","pid":1,"tid":)" << worker;
    is_first_ = false;
  }

  void time(const char* key, std::int64_t nanoseconds) {
    std::array<char, 48> text{};
    const std::int64_t held = std::max<std::int64_t>(nanoseconds, 0);
    std::snprintf(text.data(), text.size(), ",\"%s\":%lld.%03lld", key, static_cast<long long>(held / 1000),
                  static_cast<long long>(held % 1000));
    out_ << text.data();
  }

  [[nodiscard]] std::string fiber_name(std::uint64_t fiber) const {
    const std::string given = names_.fiber && fiber != 0 ? names_.fiber(fiber) : std::string{};
    return given.empty() ? "fiber " + std::to_string(fiber) : given;
  }

  [[nodiscard]] std::string reason_name(std::uint64_t reason) const {
    const std::string given = names_.wait_reason ? names_.wait_reason(reason) : std::string{};
    return given.empty() ? std::to_string(reason) : given;
  }

  void name_track(const worker_recording& worker) {
    begin("M", worker.worker);
    out_ << R"(,"name":"thread_name","args":{"name":"worker )" << worker.worker << R"("}})";
    if (worker.what.lost != 0) {
      begin("M", worker.worker);
      out_ << R"(,"name":"thread_labels","args":{"labels":")" << worker.what.lost << R"( older events lost"}})";
    }
  }

  void bar(unsigned worker, const event& from, std::int64_t until, const event* ended_by) {
    begin("X", worker);
    time("ts", from.time_ns - origin_);
    time("dur", until - from.time_ns);
    out_ << R"(,"name":)";
    if (from.kind == event_kind::worker_sleeping) {
      out_ << R"("sleeping","cat":"worker"})";
      return;
    }
    write_string(out_, fiber_name(from.fiber));
    out_ << R"(,"cat":"fiber","args":{"fiber":)" << from.fiber << R"(,"ended":")"
         << (ended_by == nullptr ? "not yet" : name_of(ended_by->kind)) << '"';
    if (ended_by != nullptr && ended_by->kind == event_kind::parked) {
      out_ << R"(,"reason":)";
      write_string(out_, reason_name(ended_by->argument));
    }
    out_ << "}}";
  }

  void instant(unsigned worker, const event& what) {
    begin("i", worker);
    time("ts", what.time_ns - origin_);
    out_ << R"(,"s":"t","name":)";
    const bool has_fiber = what.fiber != 0;
    write_string(out_, has_fiber ? std::string(name_of(what.kind)) + " " + fiber_name(what.fiber) : name_of(what.kind));
    out_ << R"(,"cat":"event","args":{"fiber":)" << what.fiber << R"(,"argument":)" << what.argument << "}}";
  }

  std::ostream& out_;
  const chrome_names& names_;
  std::int64_t origin_;
  std::int64_t end_;
  bool is_first_ = true;
};

}  // namespace

void write_chrome_trace(std::ostream& out, std::span<const worker_recording> workers, const chrome_names& names) {
  std::int64_t origin = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = std::numeric_limits<std::int64_t>::min();
  for (const worker_recording& worker : workers) {
    for (const event& each : worker.what.events) {
      origin = std::min(origin, each.time_ns);
      end = std::max(end, each.time_ns);
    }
  }
  out << R"({"displayTimeUnit":"ns","traceEvents":[)";
  chrome_writer writer(out, names, origin, end);
  for (const worker_recording& worker : workers) {
    writer.write(worker);
  }
  out << "\n]}\n";
}

}  // namespace lagom::trace
