// SPDX-License-Identifier: BSL-1.0
#include "limits.hpp"

#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

namespace lagom::os {
namespace {

// The kernel accepts periods in this range only: anything else is not a quota file.
constexpr std::int64_t period_us_min = 1'000;
constexpr std::int64_t period_us_max = 1'000'000;
constexpr std::int64_t period_us_default = 100'000;

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return std::nullopt;
  }
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad()) {
    return std::nullopt;
  }
  return text;
}

// Up to the first of `separators`, which is taken away with it.
std::string_view take_field(std::string_view& rest, std::string_view separators) noexcept {
  const std::size_t end = rest.find_first_of(separators);
  const std::string_view field = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return field;
}

std::optional<std::int64_t> parse_number(std::string_view text) noexcept {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stopped != end) {
    return std::nullopt;
  }
  return value;
}

std::optional<double> quotient(std::optional<std::int64_t> quota, std::optional<std::int64_t> period) noexcept {
  if (!quota || !period || *quota <= 0 || *period < period_us_min || *period > period_us_max) {
    return std::nullopt;
  }
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<std::int64_t> read_number(const std::string& path) {
  const std::optional<std::string> text = read_file(path);
  if (!text) {
    return std::nullopt;
  }
  std::string_view rest = *text;
  return parse_number(take_field(rest, "\n"));
}

// "150000 100000" or "max 100000".
std::optional<double> quota_v2(const std::string& directory) {
  const std::optional<std::string> text = read_file(directory + "/cpu.max");
  if (!text) {
    return std::nullopt;
  }
  std::string_view rest = *text;
  std::string_view line = take_field(rest, "\n");
  const std::string_view quota = take_field(line, " ");
  return quotient(parse_number(quota), line.empty() ? period_us_default : parse_number(line));
}

std::optional<double> quota_v1(const std::string& directory) {
  return quotient(read_number(directory + "/cpu.cfs_quota_us"), read_number(directory + "/cpu.cfs_period_us"));
}

class smallest_quota {
 public:
  using reader = std::optional<double> (*)(const std::string& directory);

  // The group and all above it, the mount's top included.
  void look_along(const std::string& mount, std::string_view group, reader read) {
    look_at(mount, read);
    // A group outside our view of the tree: none of its names below the mount mean what they say.
    if (group.find("/..") != std::string_view::npos) {
      return;
    }
    std::string directory = mount;
    while (!group.empty()) {
      const std::string_view name = take_field(group, "/");
      if (!name.empty()) {
        directory.append("/").append(name);
        look_at(directory, read);
      }
    }
  }

  [[nodiscard]] std::optional<double> get() const noexcept { return least_; }

 private:
  void look_at(const std::string& directory, reader read) {
    const std::optional<double> quota = read(directory);
    if (quota && (!least_ || *quota < *least_)) {
      least_ = quota;
    }
  }

  std::optional<double> least_;
};

bool lists_cpu(std::string_view controllers) noexcept {
  while (!controllers.empty()) {
    if (take_field(controllers, ",") == "cpu") {
      return true;
    }
  }
  return false;
}

struct sources {
  std::string groups;  // text of /proc/self/cgroup
  std::string mount;
};

sources find_sources(std::string_view root) {
  const std::string prefix(root);
  if (std::optional<std::string> groups = read_file(prefix + "/proc/self/cgroup")) {
    return {std::move(*groups), prefix + "/sys/fs/cgroup"};
  }
  return {read_file("/proc/self/cgroup").value_or(""), prefix.empty() ? "/sys/fs/cgroup" : prefix};
}

}  // namespace

std::optional<double> cpu_quota(std::string_view root) {
  const auto [groups, mount] = find_sources(root);
  smallest_quota smallest;
  // Whatever the groups are called: the tops, which are the limits inside a container.
  smallest.look_along(mount, "", quota_v2);
  smallest.look_along(mount, "", quota_v1);
  smallest.look_along(mount + "/cpu", "", quota_v1);

  std::string_view rest = groups;
  while (!rest.empty()) {
    std::string_view line = take_field(rest, "\n");
    const std::string_view hierarchy = take_field(line, ":");
    const std::string_view controllers = take_field(line, ":");
    const std::string_view group = line;
    if (hierarchy == "0" && controllers.empty()) {
      smallest.look_along(mount, group, quota_v2);
      smallest.look_along(mount + "/unified", group, quota_v2);
    } else if (lists_cpu(controllers)) {
      smallest.look_along(mount + "/cpu", group, quota_v1);
      smallest.look_along(mount + "/" + std::string(controllers), group, quota_v1);
    }
  }
  return smallest.get();
}

std::optional<std::uint64_t> max_map_count() {
  const std::optional<std::int64_t> count = read_number("/proc/sys/vm/max_map_count");
  if (!count || *count <= 0) {
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(*count);
}

std::optional<std::string> get_env(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  return std::string(value);
}

}  // namespace lagom::os
