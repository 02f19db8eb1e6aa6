// SPDX-License-Identifier: BSL-1.0
// The report as one page: plots in SVG, tables as text, nothing loaded from elsewhere.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "simulation.hpp"

namespace lagom::sim {

namespace {

using scheduler::policy;

constexpr double width = 760, height = 260;
constexpr double left = 60, right = 20, top = 16, bottom = 40;  // margins
constexpr std::string_view colours[] = {"#357", "#c33", "#583", "#a60", "#639", "#088", "#777", "#b48"};

struct curve {
  std::string name{};
  wait_histogram values{};
};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string time_text(double ns) {
  if (ns >= 1e9) return fmt::format("{:g} s", ns / 1e9);
  if (ns >= 1e6) return fmt::format("{:g} ms", ns / 1e6);
  if (ns >= 1e3) return fmt::format("{:g} us", ns / 1e3);
  return fmt::format("{:g} ns", ns);
}

std::string open_svg(double h) {
  return fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\">\n", width, h);
}

// Shares of waits up to a time, over decades from 10 ns on.
std::string draw_curves(const std::vector<curve>& all) {
  double decades = 3;
  for (const curve& c : all) {
    decades = std::max(decades, std::ceil(std::log10(std::max<double>(10, static_cast<double>(c.values.max()))) - 1));
  }
  const auto x = [&](double ns) {
    return left + (width - left - right) * std::clamp((std::log10(std::max(ns, 10.0)) - 1) / decades, 0.0, 1.0);
  };
  const auto y = [&](double share) { return height - bottom - (height - bottom - top) * share; };
  std::string out = open_svg(height);
  for (int d = 0; d <= static_cast<int>(decades); ++d) {
    const double at = x(std::pow(10.0, d + 1));
    out += fmt::format("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" class=\"g\"/>"
                       "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4}</text>\n",
                       at, y(0), y(1), height - bottom + 16, time_text(std::pow(10.0, d + 1)));
  }
  for (const int percent : {0, 50, 90, 99}) {
    out += fmt::format("<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" class=\"g\"/>"
                       "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{} %</text>\n",
                       left, width - right, y(percent / 100.0), y(percent / 100.0), left - 6, y(percent / 100.0) + 4, percent);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const wait_histogram& h = all[i].values;
    std::string path = fmt::format("M{:.1f},{:.1f}", x(10), y(0));
    h.for_each([&](std::int64_t value, std::int64_t so_far) {
      const double share = static_cast<double>(so_far) / static_cast<double>(h.count());
      path += fmt::format(" H{:.1f} V{:.1f}", x(static_cast<double>(value)), y(share));
    });
    const std::string_view colour = colours[i % std::size(colours)];
    out += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n", path, colour);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\">{}</text>\n", left + 8,
                       top + 14 + 15 * static_cast<double>(i), colour, escaped(all[i].name));
  }
  return out + "</svg>\n";
}

// One row per worker (of neighbours together if there are many), darker where it was busier.
std::string draw_timelines(const measures& m) {
  constexpr std::size_t most_rows = 64;
  const std::size_t workers = m.workers().size();
  const std::size_t per_row = (workers + most_rows - 1) / most_rows;
  const std::size_t rows = (workers + per_row - 1) / per_row;
  constexpr double row_height = 12;
  const double cell = (width - left - right) / static_cast<double>(time_buckets);
  const double stretch = std::ceil(static_cast<double>(m.measured()) / static_cast<double>(time_buckets));
  std::string out = open_svg(static_cast<double>(rows) * row_height + bottom);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t first = row * per_row;
    const std::size_t last = std::min(workers, first + per_row);
    const double at = static_cast<double>(row) * row_height;
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", left - 6, at + row_height - 2, first);
    for (std::size_t i = 0; i < time_buckets; ++i) {
      double busy = 0;
      for (std::size_t w = first; w < last; ++w) {
        busy += static_cast<double>(m.workers()[w].busy[i]);
      }
      const double share = busy / stretch / static_cast<double>(last - first);
      if (share > 0.005) {
        out += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" fill=\"#357\" fill-opacity=\"{:.2f}\"/>",
                           left + cell * static_cast<double>(i), at, cell, row_height - 2, std::min(share, 1.0));
      }
    }
    out += "\n";
  }
  return out + fmt::format("<text x=\"{}\" y=\"{:.1f}\">0</text><text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text></svg>\n",
                           left, static_cast<double>(rows) * row_height + 14, width - right,
                           static_cast<double>(rows) * row_height + 14, time_text(static_cast<double>(m.measured())));
}

// Where the workers' time went, and how far fibers moved: bars.
struct bar {
  std::string name{};
  double value = 0;
  std::string text{};
};
std::string draw_bars(const std::vector<bar>& bars) {
  constexpr double row_height = 18, names = 200;
  double most = 0;
  for (const bar& b : bars) {
    most = std::max(most, b.value);
  }
  std::string out = open_svg(row_height * static_cast<double>(bars.size()) + 8);
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const double at = row_height * static_cast<double>(i);
    const double length = most > 0 ? (width - names - 140) * bars[i].value / most : 0;
    out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>"
                       "<rect x=\"{}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"/>"
                       "<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                       names - 8, at + 13, escaped(bars[i].name), names, at + 2, length, row_height - 5,
                       colours[i % std::size(colours)], names + length + 6, at + 13, escaped(bars[i].text));
  }
  return out + "</svg>\n";
}

std::vector<bar> spending_bars(const measures& m) {
  constexpr std::string_view names[] = {"normal fibers", "batch fibers", "idle-class fibers", "searching", "waking up", "asleep"};
  const auto spent = m.all_spent();
  const double whole = static_cast<double>(m.measured()) * static_cast<double>(m.workers().size());
  std::vector<bar> bars;
  for (std::size_t i = 0; i < spendings; ++i) {
    const double share = 100 * static_cast<double>(spent[i]) / whole;
    bars.push_back({std::string(names[i]), share, fmt::format("{:.2f} %", share)});
  }
  return bars;
}

std::vector<bar> migration_bars(const measures& m) {
  constexpr std::string_view names[] = {"woken", "spawned", "stolen", "pulled"};
  std::vector<bar> bars;
  for (std::size_t how = 0; how < journeys; ++how) {
    for (std::size_t d = 0; d < topology::distance_classes; ++d) {
      const std::uint64_t n = m.moves()[how][d];
      if (n != 0) {
        bars.push_back({fmt::format("{}, {}", names[how], to_string(static_cast<topology::distance>(d))), static_cast<double>(n),
                        fmt::format("{}", n)});
      }
    }
  }
  return bars;
}

}  // namespace

std::string html_report(const simulation& done) {
  const measures& m = done.figures();
  std::vector<curve> waits;
  for (const policy kind : {policy::normal, policy::batch, policy::idle}) {
    if (m.all_waits(kind).count() != 0) {
      waits.push_back({fmt::format("{}, all waits", to_string(kind)), m.all_waits(kind)});
    }
    if (m.all_wakes(kind).count() != 0) {
      waits.push_back({fmt::format("{}, after wake-ups", to_string(kind)), m.all_wakes(kind)});
    }
  }
  std::vector<curve> lines;
  for (const fiber_figures& f : m.fibers()) {
    if (f.wake.count() != 0) {
      lines.push_back({f.name + ", wake-up", f.wake});
    }
    if (f.response.count() != 0) {
      lines.push_back({f.name + ", response", f.response});
    }
  }
  const std::string title = escaped(done.request().what.name);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>lagom-sim: {0}</title>\n<style>"
      "body{{font-family:sans-serif;max-width:820px;margin:2em auto;color:#222}}text{{font-size:11px;font-family:sans-serif}}"
      ".g{{stroke:#ddd}}pre{{font-size:11px;overflow-x:auto;background:#f6f6f6;padding:1em}}</style></head><body>\n<h1>{0}</h1>\n",
      title);
  out += "<h2>Waits in queues</h2>\n" + draw_curves(waits);
  if (!lines.empty()) {
    out += "<h2>Latency of each line of the workload</h2>\n" + draw_curves(lines);
  }
  out += "<h2>Where the workers' time went</h2>\n" + draw_bars(spending_bars(m));
  out += "<h2>Workers over time</h2>\n" + draw_timelines(m);
  const auto moved = migration_bars(m);
  out += "<h2>Migrations by distance</h2>\n" + (moved.empty() ? "<p>none</p>\n" : draw_bars(moved));
  return out + "<h2>Figures</h2>\n<pre>" + escaped(text_report(done)) + "</pre>\n</body></html>\n";
}

}  // namespace lagom::sim
