// SPDX-License-Identifier: BSL-1.0
// Every shape as text, next to this file. A change of a text is a change of what users get: look at it, then run with
// LAGOM_UPDATE_GOLDEN=1 to take it over.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "topology/describe.hpp"
#include "topology/discover.hpp"

using namespace lagom::topology;

namespace {

const std::string folder = LAGOM_TOPOLOGY_GOLDEN "/";

struct shape {
  const char* id;
  const char* description;
};

const shape synthetic_shapes[] = {
    {"s01_one_pu", "pu:1"},
    {"s02_two_cores", "core:2 pu:1"},
    {"s03_one_socket_smt", "pack:1 [numa] l3:1 core:8 pu:2"},
    {"s04_two_sockets", "pack:2 [numa(memory=64GB)] l3:1 core:8 pu:2"},
    {"s05_eight_ccx", "pack:1 [numa] l3:8(size=32MB) l2:8(size=1MB) core:1 pu:2"},
    {"s06_l2_clusters", "pack:1 [numa] l3:1(size=64MB) l2:16(size=2MB) core:4 pu:1"},
    {"s07_four_nodes", "numa:4(memory=16GB) l3:1 core:4 pu:2"},
    {"s08_dies", "pack:2 die:2 [numa] l3:2 core:4 pu:2"},
    {"s09_group_clusters", "pack:1 [numa] l3:1 group:6 core:4 pu:1"},
    {"s10_smt8", "pack:1 core:4 pu:8"},
    {"s11_llc_is_l2", "pack:1 [numa] l2:8 core:2 pu:1"},
    {"s12_linux_numbering", "pack:1 [numa] l3:1 core:8 pu:2(indexes=0,8,1,9,2,10,3,11,4,12,5,13,6,14,7,15)"},
    {"s13_two_local_nodes", "pack:1 [numa(memory=64GB)] [numa(memory=16GB)] l3:4 core:8 pu:2"},
    {"s14_2048_pus", "pack:16 [numa] l3:1 core:64 pu:2"},
    {"s15_interleaved_sockets", "pack:2 [numa] l3:1 core:4 pu:2(indexes=8*2:1*8)"},
    {"s16_private_l2_only", "pack:1 [numa] l2:4 core:1 pu:2"},
    {"s17_300_pus_no_cache", "pack:3 core:50 pu:2"},
};

const char* const xml_shapes[] = {
    "hybrid_x86_2p4e",  "arm_1_3_4",      "numa4_dist",           "sparse_odd",         "memory_only_node",
    "cpus_without_node", "disallowed_cpu", "island_without_l3", "half_allowed_cores",
};

std::string as_text(machine where, const std::string& source) {
  where.source = source;  // without the folder
  const std::size_t n = where.cpus.size();
  return describe(where) + "plan      " + describe(where, plan_workers(where, n)) + "\nplan + 1  " +
         describe(where, plan_workers(where, n + 1)).substr(0, 60) + "\nring 1st  " + describe_ring(where, 0) +
         "\nring last " + describe_ring(where, n - 1) + '\n';
}

void compare(const std::string& id, const std::string& text) {
  const std::string file = folder + id + ".txt";
  if (std::getenv("LAGOM_UPDATE_GOLDEN") != nullptr) std::ofstream(file) << text;
  std::ifstream stream(file);
  REQUIRE_MESSAGE(stream.is_open(), file);
  const std::string expected(std::istreambuf_iterator<char>(stream), {});
  CHECK_MESSAGE(text == expected, id << ": seen\n" << text << "expected\n" << expected);
}

}  // namespace

TEST_CASE("synthetic shapes") {
  for (const auto& [id, description] : synthetic_shapes) {
    const std::string spec = std::string("synthetic:") + description;
    compare(id, as_text(discover(spec), spec));
  }
}

TEST_CASE("files") {
  for (const std::string id : xml_shapes) compare(id, as_text(discover("xml:" + folder + id + ".xml"), "xml:" + id));
}
