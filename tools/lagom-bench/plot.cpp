// SPDX-License-Identifier: BSL-1.0
#include "plot.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <iterator>
#include <system_error>

#include <fmt/format.h>

namespace lagom::bench {

namespace {

constexpr double width = 640, height = 400;
constexpr double left = 90, right = 20, top = 40, bottom = 50;  // margins

/// From values to the vertical position on the page, logarithmically, over whole steps of 1, 2, 5, 10, …
class scale {
 public:
  scale(double least, double most) {
    double tick = std::pow(10.0, std::floor(std::log10(least)));
    for (std::size_t step = 0; ticks_.size() < 2 || ticks_.back() < most; ++step) {
      const double value = tick * steps[step % std::size(steps)];
      if (value * widest_step > least) ticks_.push_back(value);
      if (step % std::size(steps) == std::size(steps) - 1) tick *= decade;
    }
  }

  const std::vector<double>& ticks() const noexcept { return ticks_; }
  double y(double value) const noexcept {
    const double share = std::log(value / ticks_.front()) / std::log(ticks_.back() / ticks_.front());
    return height - bottom - share * (height - bottom - top);
  }

 private:
  static constexpr double steps[] = {1, 2, 5};
  static constexpr double decade = 10;
  static constexpr double widest_step = 2.5;  // from 2 to 5: the first tick must not lie above the least value
  std::vector<double> ticks_{};
};

std::string draw_axis(const scale& axis) {
  std::string out;
  for (const double tick : axis.ticks()) {
    out += fmt::format(
        "<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n"
        "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:g}</text>\n",
        left, width - right, axis.y(tick), axis.y(tick), left - 8, axis.y(tick) + 4, tick);
  }
  out +=
      fmt::format("<text x=\"20\" y=\"{0}\" transform=\"rotate(-90 20 {0})\" text-anchor=\"middle\">ns per op</text>\n",
                  (height - bottom + top) / 2);
  return out;
}

std::string draw_column(const summary& results, const scale& axis, double x, double half) {
  const double median = axis.y(results.ns_per_op.median);
  std::string out = fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}: {:.4g} ns, {} runs</text>\n", x,
                                height - bottom + 24, name_of(results.which), results.ns_per_op.median, results.runs);
  out += fmt::format(
      "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#c33\" stroke-width=\"2\"/>\n", x - half,
      x + half, median, median);
  // Side by side in the order of the runs, so that a drift shows.
  for (std::size_t run = 0; run < results.samples.size(); ++run) {
    const double place = (static_cast<double>(run) + 0.5) / static_cast<double>(results.samples.size());
    out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"#357\" fill-opacity=\"0.7\"/>\n",
                       x - half + 2 * half * place, axis.y(results.samples[run]));
  }
  return out;
}

}  // namespace

std::string draw(std::string_view title, const std::vector<summary>& all) {
  double least = all.front().ns_per_op.min, most = all.front().ns_per_op.max;
  for (const auto& results : all) {
    least = std::min(least, results.ns_per_op.min);
    most = std::max(most, results.ns_per_op.max);
  }
  const scale axis(least, most);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" font-family=\"sans-serif\" "
      "font-size=\"13\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n"
      "<text x=\"{2}\" y=\"22\" text-anchor=\"middle\" font-size=\"16\">{3}</text>\n",
      width, height, (left + width - right) / 2, title);
  out += draw_axis(axis);
  const double column = (width - left - right) / static_cast<double>(all.size());
  for (std::size_t place = 0; place < all.size(); ++place) {
    constexpr double share_of_column = 0.35;
    out += draw_column(all[place], axis, left + column * (static_cast<double>(place) + 0.5), column * share_of_column);
  }
  return out + "</svg>\n";
}

void require_writable(const std::string& file) {
  if (!std::ofstream(file, std::ios::app)) {
    throw usage_error(fmt::format("--plot: {} cannot be written: {}", file, std::generic_category().message(errno)));
  }
}

void write_file(const std::string& file, std::string_view text) {
  std::ofstream out(file, std::ios::trunc);
  if (!(out << text << std::flush)) {
    throw std::system_error(errno, std::generic_category(), file);
  }
}

}  // namespace lagom::bench
