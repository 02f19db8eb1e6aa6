// SPDX-License-Identifier: BSL-1.0
#include <fmt/format.h>

#include <string_view>

#include "simulation.hpp"

namespace lagom::sim {

namespace {

using scheduler::policy;

constexpr policy kinds[] = {policy::normal, policy::batch, policy::idle};
constexpr std::string_view spending_names[] = {"normal", "batch", "idle_class", "searching", "waking", "asleep"};
constexpr std::string_view journey_names[] = {"wake", "spawn", "steal", "pull"};
constexpr double second = 1e9;

double us(std::int64_t ns) { return static_cast<double>(ns) / 1e3; }

double percent(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

json to_json(const wait_histogram& h) {
  return {{"n", h.count()},          {"mean_ns", static_cast<std::int64_t>(h.mean())}, {"p50_ns", h.quantile(0.50)},
          {"p90_ns", h.quantile(0.90)}, {"p99_ns", h.quantile(0.99)},                    {"max_ns", h.max()}};
}

std::string line(std::string_view name, const wait_histogram& h) {
  return fmt::format("  {:<24}{:>10}{:>12.2f}{:>12.2f}{:>12.2f}{:>12.2f}{:>12.2f}\n", name, h.count(), h.mean() / 1e3,
                     us(h.quantile(0.50)), us(h.quantile(0.90)), us(h.quantile(0.99)), us(h.max()));
}

template <class Classes>
json by_class(const Classes& histograms) {
  json result = json::object();
  for (const policy kind : kinds) {
    const wait_histogram& h = histograms[static_cast<std::size_t>(kind)];
    if (h.count() != 0) {
      result[std::string(to_string(kind))] = to_json(h);
    }
  }
  return result;
}

json spent_json(const std::array<nanos, spendings>& spent) {
  json result;
  for (std::size_t i = 0; i < spendings; ++i) {
    result[std::string(spending_names[i])] = spent[i];
  }
  return result;
}

json moves_json(const measures& m) {
  json result;
  for (std::size_t how = 0; how < journeys; ++how) {
    json row;
    for (std::size_t d = 0; d < topology::distance_classes; ++d) {
      row[std::string(to_string(static_cast<topology::distance>(d)))] = m.moves()[how][d];
    }
    result[std::string(journey_names[how])] = row;
  }
  return result;
}

json fibers_json(const measures& m) {
  json result = json::array();
  for (const fiber_figures& f : m.fibers()) {
    json row{{"name", f.name},
             {"fibers", f.fibers},
             {"served_ns", f.served},
             {"share", static_cast<double>(f.served) / static_cast<double>(m.measured())},
             {"loops", f.loops}};
    if (f.wake.count() != 0) {
      row["wake"] = to_json(f.wake);
    }
    if (f.response.count() != 0) {
      row["response"] = to_json(f.response);
    }
    if (f.child_start.count() != 0) {
      row["child_start"] = to_json(f.child_start);
    }
    result.push_back(row);
  }
  return result;
}

json workers_json(const measures& m, const crew& all) {
  json result = json::array();
  for (std::size_t i = 0; i < m.workers().size(); ++i) {
    const worker_figures& w = m.workers()[i];
    result.push_back({{"worker", i},
                      {"cpu", all.machine.cpus[all.workers[i]->cpu].os_index},
                      {"switches", w.switches},
                      {"displaced", w.displaced},
                      {"thefts", w.thefts},
                      {"searches", w.searches},
                      {"wakes", w.wakes},
                      {"spent_ns", spent_json(w.spent)},
                      {"wait", by_class(w.wait)},
                      {"wake", by_class(w.wake)}});
  }
  return result;
}

std::string fibers_text(const measures& m) {
  std::string out = fmt::format("\nfibers, us\n  {:<24}{:>10}{:>12}{:>12}{:>12}{:>12}{:>12}\n", "", "n", "mean", "p50",
                                "p90", "p99", "max");
  for (const fiber_figures& f : m.fibers()) {
    out += fmt::format("  {} ({}): {:.4f} workers, {} loops\n", f.name, f.fibers,
                       static_cast<double>(f.served) / static_cast<double>(m.measured()), f.loops);
    const std::pair<std::string_view, const wait_histogram*> rows[] = {
        {"  wake", &f.wake}, {"  response", &f.response}, {"  start of child", &f.child_start}};
    for (const auto& [name, histogram] : rows) {
      if (histogram->count() != 0) {
        out += line(name, *histogram);
      }
    }
  }
  return out;
}

std::string workers_text(const measures& m) {
  constexpr std::size_t most_lines = 32;
  std::string out = fmt::format("\nworkers, %\n  {:>6}{:>9}{:>9}{:>9}{:>11}{:>9}{:>9}{:>11}{:>9}{:>9}\n", "", "normal", "batch",
                                "idle", "searching", "waking", "asleep", "switches", "thefts", "wakes");
  for (std::size_t i = 0; i < m.workers().size() && i < most_lines; ++i) {
    const worker_figures& w = m.workers()[i];
    out += fmt::format("  {:>6}{:>9.2f}{:>9.2f}{:>9.2f}{:>11.2f}{:>9.2f}{:>9.2f}{:>11}{:>9}{:>9}\n", i,
                       percent(w.spent[0], m.measured()), percent(w.spent[1], m.measured()),
                       percent(w.spent[2], m.measured()), percent(w.spent[3], m.measured()),
                       percent(w.spent[4], m.measured()), percent(w.spent[5], m.measured()), w.switches, w.thefts, w.wakes);
  }
  if (m.workers().size() > most_lines) {
    out += fmt::format("  … {} more; --json has all\n", m.workers().size() - most_lines);
  }
  return out;
}

std::string moves_text(const measures& m) {
  std::string out = fmt::format("\nmigrations\n  {:<8}", "");
  for (std::size_t d = 0; d < topology::distance_classes; ++d) {
    out += fmt::format("{:>14}", to_string(static_cast<topology::distance>(d)));
  }
  for (std::size_t how = 0; how < journeys; ++how) {
    out += fmt::format("\n  {:<8}", journey_names[how]);
    for (std::size_t d = 0; d < topology::distance_classes; ++d) {
      out += fmt::format("{:>14}", m.moves()[how][d]);
    }
  }
  return out + "\n";
}

std::string verdict_text(const simulation& done) {
  const checkers& j = done.judged();
  if (!done.request().bounds.check) {
    return "\nnothing was checked\n";
  }
  if (done.is_sound()) {
    return fmt::format("\nchecked: no fiber lost, none idle while runnable beyond {} us, worst lag {:.2f} us of {:.2f} us\n",
                       j.idle_bound() / 1000, us(j.worst_lag()), us(j.lag_bound()));
  }
  std::string out = "\n";
  for (const violation& v : j.found()) {
    out += fmt::format("VIOLATED: {} at {} ns: {}\n", v.rule, v.at, v.what);
  }
  return out;
}

}  // namespace

std::string text_report(const simulation& done) {
  const measures& m = done.figures();
  const run_request& r = done.request();
  const auto spent = m.all_spent();
  const nanos capacity = m.measured() * static_cast<nanos>(m.workers().size());
  const auto busy = spent[0] + spent[1] + spent[2];
  std::string out = fmt::format("{}: {}\n", r.what.name, r.what.about);
  out += fmt::format("{} workers on {}, {} fibers, {} ns measured, seed {}, placement {}\n", r.workers,
                     r.topology.empty() ? "this machine" : r.topology, done.played().fibers().size(), m.measured(), r.how.seed,
                     r.placement);
  out += fmt::format("utilization {:.2f} %, searching {:.2f} %, waking {:.2f} %\n", percent(busy, capacity),
                     percent(spent[3], capacity), percent(spent[4], capacity));
  out += fmt::format("{} switches ({:.0f}/s), {} thefts in {} searches, {} wakes of workers\n",
                     m.total(&worker_figures::switches),
                     static_cast<double>(m.total(&worker_figures::switches)) * second / static_cast<double>(m.measured()),
                     m.total(&worker_figures::thefts), m.total(&worker_figures::searches), m.total(&worker_figures::wakes));
  if (m.shares().fibers > 1) {
    out += fmt::format("share error of {} hogs: at most {:.2f} % ({})\n", m.shares().fibers, 100 * m.shares().worst,
                       m.shares().who);
  }
  out += fmt::format("\nwaits in queues, us\n  {:<24}{:>10}{:>12}{:>12}{:>12}{:>12}{:>12}\n", "", "n", "mean", "p50", "p90",
                     "p99", "max");
  for (const policy kind : kinds) {
    if (m.all_waits(kind).count() != 0) {
      out += line(fmt::format("{}, all", to_string(kind)), m.all_waits(kind));
      out += line(fmt::format("{}, after wake-ups", to_string(kind)), m.all_wakes(kind));
    }
  }
  return out + fibers_text(m) + workers_text(m) + moves_text(m) + verdict_text(done);
}

json json_report(const simulation& done) {
  const measures& m = done.figures();
  const run_request& r = done.request();
  json waits;
  json wakes;
  for (const policy kind : kinds) {
    if (m.all_waits(kind).count() != 0) {
      waits[std::string(to_string(kind))] = to_json(m.all_waits(kind));
      wakes[std::string(to_string(kind))] = to_json(m.all_wakes(kind));
    }
  }
  json found = json::array();
  for (const violation& v : done.judged().found()) {
    found.push_back({{"rule", v.rule}, {"at_ns", v.at}, {"what", v.what}});
  }
  return {{"workload", r.what.name},
          {"topology", r.topology.empty() ? "this machine" : r.topology},
          {"workers", r.workers},
          {"fibers", done.played().fibers().size()},
          {"seed", r.how.seed},
          {"placement", r.placement},
          {"tick_ns", r.how.tick},
          {"prices_ns", {{"probe", r.how.price.probe}, {"line", r.how.price.remote_line}, {"wake", r.how.price.wake},
                         {"spin", r.how.price.spin}, {"switch", r.how.price.change}, {"call", r.how.price.call}}},
          {"measured_ns", m.measured()},
          {"events", done.played().events()},
          {"decisions", done.played().decisions()},
          {"switches", m.total(&worker_figures::switches)},
          {"searches", m.total(&worker_figures::searches)},
          {"thefts", m.total(&worker_figures::thefts)},
          {"wakes_of_workers", m.total(&worker_figures::wakes)},
          {"spent_ns", spent_json(m.all_spent())},
          {"share_error", m.shares().worst},
          {"wait", waits},
          {"wake", wakes},
          {"migrations", moves_json(m)},
          {"lines", fibers_json(m)},
          {"per_worker", workers_json(m, done.all())},
          {"checked", r.bounds.check},
          {"worst_lag_ns", done.judged().worst_lag()},
          {"violations", found}};
}

}  // namespace lagom::sim
