// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string_view>

#include "topology.hpp"

namespace lagom::topology {

// What is there, according to hwloc:
//   ""                      this machine: the CPUs the calling thread may use (cpuset and affinity), so call it before
//                           any worker is bound
//   "synthetic:<string>"    hwloc's synthetic description, such as "synthetic:pack:2 [numa] l3:1 core:8 pu:2"
//   "xml:<file>"            what `lstopo <file>.xml` wrote, on this machine or another
// Where this machine tells nothing but which CPUs may be used, they are taken for single cores without caches.
// Variables such as HWLOC_XMLFILE and HWLOC_SYNTHETIC do not change what "" means; those that cannot be kept out
// (HWLOC_FSROOT, HWLOC_CPUID_PATH, HWLOC_THISSYSTEM=0) are refused.
//
// Throws std::invalid_argument (unknown form, bad description, not a topology) or std::system_error (file, memory), with
// what was wrong and what would be right. May take milliseconds and visit each CPU: start-up code, on a plain thread.
machine discover(std::string_view spec);

}  // namespace lagom::topology
