// SPDX-License-Identifier: BSL-1.0
#include "workload.hpp"

namespace lagom::bench {

const std::vector<workload_entry>& workloads() {
  static const std::vector<workload_entry> all = {
      {"messaging", "groups of 20 senders and 20 receivers exchange messages (perf bench sched messaging)",
       make_messaging},
      {"pipe", "two sides exchange one token back and forth (perf bench sched pipe)", make_pipe},
      {"yield", "fibers that do nothing but yield: the cost of a switch", make_yield},
      {"spawn", "spawn and join, a batch at a time", make_spawn},
  };
  return all;
}

}  // namespace lagom::bench
