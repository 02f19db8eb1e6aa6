// SPDX-License-Identifier: BSL-1.0
#include "topology/discover.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include "child_process.hpp"
#include "topology/describe.hpp"

using namespace lagom::topology;

namespace {

template <class Error>
std::string error_of(const std::string& spec) {
  try {
    discover(spec);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

bool mentions(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// Without the memory: a virtual machine's may change between two looks.
std::string seen_here() {
  machine where = discover("");
  for (auto& node : where.nodes) node.bytes = 0;
  return describe(where);
}

// A file for one test.
class temporary_file {
 public:
  explicit temporary_file(const std::string& content) {
    const int descriptor = ::mkstemp(path_);
    REQUIRE(descriptor >= 0);
    ::close(descriptor);
    std::ofstream(path_) << content;
  }
  ~temporary_file() { std::remove(path_); }
  temporary_file(const temporary_file&) = delete;
  temporary_file& operator=(const temporary_file&) = delete;

  std::string spec() const { return std::string("xml:") + path_; }

 private:
  char path_[32] = "lagom-topology-XXXXXX";
};

}  // namespace

TEST_CASE("this machine: exactly the CPUs of the mask, and it can be bound") {
  const machine where = discover("");
  check_invariants(where);
  CHECK(where.this_system);
  CHECK(where.binding_handle != nullptr);
  CHECK(where.allowed() == kernel_mask());
  CHECK(where.online >= where.cpus.size());
}

TEST_CASE("this machine: a thread's narrow mask is honoured") {
  for (const auto only : kernel_mask()) {
    const std::string seen = in_child([only] {
      set_kernel_mask(cpu_set{}.set(only));
      const machine where = discover("");
      return where.allowed().to_string() + " of " + std::to_string(where.online > 0 ? where.cpus.size() : 0);
    });
    CHECK(seen == std::to_string(only) + " of 1");
  }
}

TEST_CASE("this machine: the mask counts although another thread of the process has another one") {
  // hwloc's own restriction takes the mask of the process and gives up silently when threads differ.
  if (kernel_mask().count() < 2) return;
  const std::string seen = in_child([] {
    const cpu_set all = kernel_mask();
    std::string result;
    std::thread([&] {
      set_kernel_mask(cpu_set{}.set(all.last()));  // of this thread
      result = discover("").allowed().to_string();
    }).join();
    return result == std::to_string(all.last()) ? std::string("right") : result;
  });
  CHECK(seen == "right");
}

TEST_CASE("this machine: variables that would replace it are not obeyed") {
  const std::string truth = in_child(seen_here);
  const temporary_file other([] {
    std::ifstream stream(LAGOM_TOPOLOGY_GOLDEN "/numa4_dist.xml");
    return std::string(std::istreambuf_iterator<char>(stream), {});
  }());
  const std::string file = other.spec().substr(4);
  CHECK(mentions(truth, "this machine"));
  CHECK(truth == in_child([] {
          set_environment({{"HWLOC_SYNTHETIC", "pack:4 core:8 pu:2"}});
          return seen_here();
        }));
  CHECK(truth == in_child([&] {
          set_environment({{"HWLOC_XMLFILE", file.c_str()}});
          return seen_here();
        }));
  CHECK(truth == in_child([&] {
          set_environment({{"HWLOC_XMLFILE", file.c_str()}, {"HWLOC_THISSYSTEM", "1"}});
          return seen_here();
        }));
  CHECK(truth == in_child([] {
          set_environment({{"HWLOC_SYNTHETIC", "pack:4 core:8 pu:2"}, {"HWLOC_THISSYSTEM", "1"}});
          return seen_here();
        }));
  CHECK(mentions(in_child([] {
                   set_environment({{"HWLOC_SYNTHETIC", "core:8 pu:2"}, {"HWLOC_COMPONENTS", "synthetic,stop"}});
                   return discover("").allowed().to_string();
                 }),
                 kernel_mask().to_string().c_str()));
}

TEST_CASE("this machine: variables that cannot be kept out are refused by name") {
  const auto with = [](const char* name, const char* value) {
    return in_child([=] {
      set_environment({{name, value}});
      return seen_here();
    });
  };
  CHECK(mentions(with("HWLOC_FSROOT", "/nowhere"), "threw: topology: HWLOC_FSROOT is set"));
  CHECK(mentions(with("HWLOC_CPUID_PATH", "/nowhere"), "threw: topology: HWLOC_CPUID_PATH is set"));
  CHECK(mentions(with("HWLOC_THISSYSTEM", "0"), "unset HWLOC_THISSYSTEM"));
  CHECK(mentions(with("HWLOC_FSROOT", "/"), "this machine"));
}

TEST_CASE("this machine: no information at all") {
  // Without a source of information hwloc finds nothing; what remains is the mask.
  const std::string seen = in_child([] {
    set_environment({{"HWLOC_COMPONENTS", "stop"}});
    const machine where = discover("");
    check_invariants(where);
    const bool plain = where.this_system && where.count(level::core) == where.cpus.size() &&
                       where.count(level::llc) == 1 && where.count(level::package) == 0;
    return std::string(plain ? "plain, " : "not plain, ") + where.allowed().to_string();
  });
  CHECK(seen == "plain, " + kernel_mask().to_string());

  const cpu_set last = cpu_set{}.set(kernel_mask().last());
  const std::string narrow = in_child([&] {
    set_environment({{"HWLOC_COMPONENTS", "stop"}});
    set_kernel_mask(last);
    return discover("").allowed().to_string();
  });
  CHECK(narrow == last.to_string());
}

TEST_CASE("a description is never this system") {
  for (const char* spec : {"synthetic:core:2 pu:1", "xml:" LAGOM_TOPOLOGY_GOLDEN "/sparse_odd.xml"}) {
    CHECK_FALSE(discover(spec).this_system);
    const std::string forced = in_child([&] {
      set_environment({{"HWLOC_THISSYSTEM", "1"}});
      const machine where = discover(spec);
      return std::string(where.this_system || where.binding_handle != nullptr ? "this system" : "made up");
    });
    CHECK(forced == "made up");
  }
}

TEST_CASE("descriptions do not depend on what we may use here, nor on variables") {
  const std::string spec = "synthetic:pack:2 [numa] l3:1 core:4 pu:2";
  const std::string truth = describe(discover(spec));
  const std::string seen = in_child([&] {
    set_environment({{"HWLOC_SYNTHETIC", "core:1 pu:1"}, {"HWLOC_COMPONENTS", "stop"}});
    set_kernel_mask(cpu_set{}.set(kernel_mask().first()));
    return describe(discover(spec));
  });
  CHECK(seen == truth);
}

TEST_CASE("errors say what was wrong and what would be right") {
  for (const char* spec : {"bogus", "Synthetic:pu:1", "xml", "synthetic", " "})
    CHECK(mentions(error_of<std::invalid_argument>(spec), "unknown form; expected"));
  for (const char* spec : {"synthetic:", "synthetic:foo", "synthetic:core:0 pu:1", "synthetic:core:-2 pu:1",
                           "synthetic:core:2 pu:1 zz", "synthetic:core:2(", "synthetic:pack:2 core"}) {
    const std::string error = error_of<std::invalid_argument>(spec);
    CHECK_MESSAGE(mentions(error, "such as \"synthetic:pack:2 [numa] l3:1 core:8 pu:2\""), spec << " -> " << error);
    CHECK(mentions(error, spec));
  }
  for (const char* spec : {"synthetic:pack:99999999999 pu:1", "synthetic:core:1000000 pu:1000000",
                           "synthetic:8193", "synthetic:core:99999999999999999999999 pu:1"})
    CHECK(mentions(error_of<std::invalid_argument>(spec), "more than 8192 CPUs"));
  CHECK(mentions(error_of<std::invalid_argument>("synthetic:core:1 pu:2(indexes=0,70000)"), "CPU 70000 is beyond"));
  CHECK(mentions(error_of<std::invalid_argument>(std::string("synthetic:pu:1\0pu:2", 19)), "zero byte"));
}

TEST_CASE("errors of files") {
  CHECK(mentions(error_of<std::system_error>("xml:/nowhere/machine.xml"), "No such file"));
  CHECK(mentions(error_of<std::system_error>("xml:/"), "Is a directory"));
  for (const char* spec : {"xml:", "xml:-"}) CHECK(mentions(error_of<std::invalid_argument>(spec), "a file name"));
  std::ifstream stream(LAGOM_TOPOLOGY_GOLDEN "/sparse_odd.xml");
  const std::string good(std::istreambuf_iterator<char>(stream), {});
  // 1500: not within an object; hwloc 2.9 would leak it.
  for (const std::string& content : {std::string(), std::string("hello\n"), good.substr(0, 1500),
                                     std::string("<?xml version=\"1.0\"?>\n<topology version=\"2.0\"></topology>\n")}) {
    const temporary_file bad(content);
    CHECK(mentions(error_of<std::invalid_argument>(bad.spec()), "not a topology of hwloc"));
  }
  const temporary_file fine(good);
  CHECK(error_of<std::exception>(fine.spec()) == "accepted");
}
