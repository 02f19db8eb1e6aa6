// SPDX-License-Identifier: BSL-1.0
#include "topology/bind.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <thread>

#include "child_process.hpp"
#include "topology/discover.hpp"

using namespace lagom::topology;

TEST_CASE("bind: a thread gets its CPU, and all of them back") {
  const machine where = discover("");
  std::thread([&] {
    for (std::size_t cpu = 0; cpu < where.cpus.size(); ++cpu) {
      CHECK(bind_to_cpu(where, cpu) == bound::to_cpu);
      CHECK(kernel_mask() == cpu_set{}.set(where.cpus[cpu].os_index));
      CHECK(current_mask() == kernel_mask());
      CHECK(bind_to_llc(where, cpu) == bound::to_llc);
      CHECK(kernel_mask() == where.domain_at(level::llc, where.cpus[cpu].llc).cpus);
      CHECK(unbind(where));
      CHECK(kernel_mask() == where.allowed());
    }
  }).join();
  CHECK(kernel_mask() == where.allowed());  // only that thread
}

TEST_CASE("bind: a made-up topology binds nothing") {
  const machine where = discover("synthetic:core:64 pu:2");
  const cpu_set before = kernel_mask();
  CHECK(bind_to_cpu(where, 100) == bound::not_this_system);
  CHECK(bind_to_cpu(where, 0) == bound::not_this_system);
  CHECK(bind_to_llc(where, 0) == bound::not_this_system);
  CHECK_FALSE(unbind(where));
  CHECK(kernel_mask() == before);
}

TEST_CASE("bind: a CPU that is gone falls back to its cache, then to nothing") {
  const std::string seen = in_child([] {
    machine where = discover("");
    // As after hotplug: an index whose CPU the system does not have, with a neighbour that it has.
    cpu ghost = where.cpus.front();
    ghost.os_index = 60000;
    where.cpus.push_back(ghost);
    const auto gone = where.cpus.size() - 1;
    const cpu_set cache = where.domain_at(level::llc, ghost.llc).cpus;
    std::string outcomes(to_string(bind_to_cpu(where, gone)));
    outcomes += kernel_mask() == cache ? ", mask right, " : ", mask wrong, ";
    where.cpus[gone].llc = 999;
    outcomes += to_string(bind_to_cpu(where, gone));
    return outcomes + (kernel_mask() == cache ? ", mask kept" : ", mask lost");
  });
  CHECK(seen == "bound to its last-level cache, mask right, not bound, mask kept");
}

TEST_CASE("bind: the mask is the kernel's, also where it is wider than the topology") {
  const std::string seen = in_child([] {
    const cpu_set all = kernel_mask();
    set_kernel_mask(cpu_set{}.set(all.first()));
    const machine narrow = discover("");
    set_kernel_mask(all);  // the CPU set grew
    return std::string(narrow.cpus.size() == 1 && current_mask() == all ? "right" : "wrong");
  });
  CHECK(seen == "right");
}

TEST_CASE("bind: from many threads at once") {
  const machine where = discover("");
  std::atomic<int> wrong{0};
  std::thread threads[8];
  for (std::size_t i = 0; i < 8; ++i)
    threads[i] = std::thread([&, i] {
      const std::size_t cpu = i % where.cpus.size();
      for (int round = 0; round < 200; ++round)
        if (bind_to_cpu(where, cpu) != bound::to_cpu || kernel_mask().count() != 1) ++wrong;
    });
  for (auto& one : threads) one.join();
  CHECK(wrong == 0);
}

TEST_CASE("bind: works without information about the machine") {
  const std::string seen = in_child([] {
    set_environment({{"HWLOC_COMPONENTS", "stop"}});
    const machine where = discover("");
    const auto last = where.cpus.size() - 1;
    std::string outcome(to_string(bind_to_cpu(where, last)));
    return outcome + " " + std::to_string(where.cpus[last].os_index == kernel_mask().first());
  });
  CHECK(seen == "bound to its CPU 1");
}
