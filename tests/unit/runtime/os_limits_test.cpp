// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "os/limits.hpp"

namespace os = lagom::os;

namespace {

// A pretended system below a temporary directory.
class fake_root {
 public:
  fake_root() {
    std::string name = (std::filesystem::temp_directory_path() / "lagom-limits-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~fake_root() { std::filesystem::remove_all(path_); }
  fake_root(const fake_root&) = delete;
  fake_root& operator=(const fake_root&) = delete;

  fake_root& write(const std::string& file, const std::string& text) {
    const std::filesystem::path full = path_ / file;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
    return *this;
  }

  [[nodiscard]] std::optional<double> quota() const { return os::cpu_quota(path_.string()); }

 private:
  std::filesystem::path path_;
};

const std::string groups = "proc/self/cgroup";
const std::string mount = "sys/fs/cgroup/";

std::optional<double> quota_of_line(const std::string& cpu_max) {
  fake_root root;
  root.write(groups, "0::/app\n").write(mount + "app/cpu.max", cpu_max);
  return root.quota();
}

}  // namespace

TEST_CASE("version 2: one and a half CPUs, half a CPU, no limit") {
  CHECK(quota_of_line("150000 100000\n") == 1.5);
  CHECK(quota_of_line("50000 100000\n") == 0.5);
  CHECK(quota_of_line("200000\n") == 2.0);
  CHECK(quota_of_line("max 100000\n") == std::nullopt);
}

TEST_CASE("version 2: garbage is no limit") {
  for (const char* text : {"", "\n", "garbage\n", "100000 0\n", "100000 -1\n", "-1 100000\n", "0 100000\n", "1e5 100000\n",
                           "100000x 100000\n", "100000 100000 7\n", "100000 99999999999999999999\n",
                           "99999999999999999999 100000\n", " 100000 100000\n", "100000 5\n"}) {
    CAPTURE(text);
    CHECK(quota_of_line(text) == std::nullopt);
  }
}

TEST_CASE("version 2: the smallest of the group and all above it") {
  fake_root root;
  root.write(groups, "0::/a/b/c\n").write(mount + "a/b/c/cpu.max", "400000 100000\n");
  CHECK(root.quota() == 4.0);
  root.write(mount + "a/cpu.max", "150000 100000\n");
  CHECK(root.quota() == 1.5);
  root.write(mount + "a/b/cpu.max", "max 100000\n");
  CHECK(root.quota() == 1.5);
  root.write(mount + "a/b/other/cpu.max", "1000 100000\n");
  CHECK(root.quota() == 1.5);
  root.write(mount + "cpu.max", "30000 100000\n");
  CHECK(root.quota() == 0.3);
}

TEST_CASE("version 1: quota and period files, -1 is no limit") {
  fake_root root;
  root.write(groups, "5:memory:/elsewhere\n4:cpu,cpuacct:/app\n1:name=systemd:/\n");
  CHECK(root.quota() == std::nullopt);
  const std::string app = mount + "cpu,cpuacct/app/";
  root.write(app + "cpu.cfs_quota_us", "-1\n").write(app + "cpu.cfs_period_us", "100000\n");
  CHECK(root.quota() == std::nullopt);
  root.write(app + "cpu.cfs_quota_us", "250000\n");
  CHECK(root.quota() == 2.5);
  root.write(app + "cpu.cfs_period_us", "50000\n");
  CHECK(root.quota() == 5.0);
  root.write(mount + "cpu,cpuacct/cpu.cfs_quota_us", "10000\n")
      .write(mount + "cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  CHECK(root.quota() == 0.1);
}

TEST_CASE("version 1: a quota without a period is no limit, cpuset is not cpu") {
  fake_root root;
  root.write(groups, "3:cpuset:/app\n2:cpu:/app\n").write(mount + "cpu/app/cpu.cfs_quota_us", "100000\n");
  root.write(mount + "cpuset/app/cpu.cfs_quota_us", "5000\n").write(mount + "cpuset/app/cpu.cfs_period_us", "100000\n");
  CHECK(root.quota() == std::nullopt);
  root.write(mount + "cpu/app/cpu.cfs_period_us", "100000\n");
  CHECK(root.quota() == 1.0);
}

TEST_CASE("in a container the group's outer name is not there, the mount's top is") {
  fake_root root;
  root.write(groups, "0::/docker/0123\n").write(mount + "cpu.max", "70000 100000\n");
  CHECK(root.quota() == 0.7);
}

TEST_CASE("a group outside the view: only the top counts") {
  fake_root root;
  root.write(groups, "0::/../sibling\n").write(mount + "sibling/cpu.max", "1000 100000\n");
  CHECK(root.quota() == std::nullopt);
  root.write(mount + "cpu.max", "200000 100000\n");
  CHECK(root.quota() == 2.0);
}

TEST_CASE("hybrid: the limit is in the version 1 tree, version 2 is mounted beside it") {
  fake_root root;
  root.write(groups, "4:cpu:/app\n0::/app\n").write(mount + "cpu/app/cpu.cfs_quota_us", "90000\n");
  root.write(mount + "cpu/app/cpu.cfs_period_us", "100000\n");
  CHECK(root.quota() == 0.9);
  root.write(mount + "unified/app/cpu.max", "80000 100000\n");
  CHECK(root.quota() == 0.8);
}

TEST_CASE("a root without proc stands for the mount itself") {
  fake_root plain;
  plain.write("cpu.max", "150000 100000\n");
  CHECK(plain.quota() == 1.5);
  fake_root old;
  old.write("cpu/cpu.cfs_quota_us", "50000\n").write("cpu/cpu.cfs_period_us", "100000\n");
  CHECK(old.quota() == 0.5);
}

TEST_CASE("nothing there, and the system's own files, do no harm") {
  fake_root root;
  CHECK(root.quota() == std::nullopt);
  CHECK(os::cpu_quota("/nonexistent/root") == std::nullopt);
  const std::optional<double> own = os::cpu_quota();
  CHECK((!own || *own > 0));
}

TEST_CASE("the map limit and the environment") {
  const std::optional<std::uint64_t> maps = os::max_map_count();
  REQUIRE(maps);
  CHECK(*maps >= 1000);
  ::setenv("LAGOM_LIMITS_TEST", "value", 1);
  CHECK(os::get_env("LAGOM_LIMITS_TEST") == "value");
  ::setenv("LAGOM_LIMITS_TEST", "", 1);
  CHECK(os::get_env("LAGOM_LIMITS_TEST") == "");
  ::unsetenv("LAGOM_LIMITS_TEST");
  CHECK(os::get_env("LAGOM_LIMITS_TEST") == std::nullopt);
}
