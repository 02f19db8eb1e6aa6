// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include "topology.hpp"

namespace lagom::topology {

// A page of text for logs, tools and golden tests. CPUs are named by OS index. Braces hold the CPUs of a core, brackets
// the cores of a cluster.
std::string describe(const machine& where);

// One line: the CPU of each worker, in order. Ascending runs are written "0-7".
std::string describe(const machine& where, const worker_plan& plan);

// One line: the others around a CPU by distance, nearest first.
std::string describe_ring(const machine& where, std::size_t cpu);

}  // namespace lagom::topology
