// SPDX-License-Identifier: BSL-1.0
#include "bind.hpp"

#include <hwloc.h>
#include <hwloc/linux.h>

#include <cassert>
#include <memory>

namespace lagom::topology {
namespace {

struct bitmap_free {
  void operator()(hwloc_bitmap_s* bitmap) const noexcept { hwloc_bitmap_free(bitmap); }
};
using bitmap_ptr = std::unique_ptr<hwloc_bitmap_s, bitmap_free>;

// hwloc reports success for a topology that is not this machine and does nothing: such a one has no handle here.
hwloc_topology_t handle_of(const machine& where) noexcept {
  return static_cast<hwloc_topology_t>(where.binding_handle.get());
}

template <class Wanted>
bool bind_to(const machine& where, Wanted wanted) noexcept {
  const bitmap_ptr set(hwloc_bitmap_alloc());
  if (!set) return false;
  for (const auto& one : where.cpus)
    if (wanted(one) && hwloc_bitmap_set(set.get(), one.os_index) != 0) return false;
  return hwloc_set_cpubind(handle_of(where), set.get(), HWLOC_CPUBIND_THREAD | HWLOC_CPUBIND_STRICT) == 0;
}

}  // namespace

bound bind_to_cpu(const machine& where, std::size_t cpu) noexcept {
  assert(cpu < where.cpus.size());
  if (handle_of(where) == nullptr) return bound::not_this_system;
  const unsigned os_index = where.cpus[cpu].os_index;
  if (bind_to(where, [os_index](const auto& one) { return one.os_index == os_index; })) return bound::to_cpu;
  // The CPU went offline or was taken from us. A neighbour with the same cache is the next best.
  const unsigned llc = where.cpus[cpu].llc;
  const auto neighbour = [=](const auto& one) { return one.llc == llc && one.os_index != os_index; };
  return bind_to(where, neighbour) ? bound::to_llc : bound::nowhere;
}

bound bind_to_llc(const machine& where, std::size_t cpu) noexcept {
  assert(cpu < where.cpus.size());
  if (handle_of(where) == nullptr) return bound::not_this_system;
  const unsigned llc = where.cpus[cpu].llc;
  return bind_to(where, [llc](const auto& one) { return one.llc == llc; }) ? bound::to_llc : bound::nowhere;
}

bool unbind(const machine& where) noexcept {
  return handle_of(where) != nullptr && bind_to(where, [](const auto&) { return true; });
}

cpu_set current_mask() {
  cpu_set mask;
  // Not loaded on purpose: hwloc cuts its answer to the CPUs of a loaded topology, and ours may lack some.
  hwloc_topology_t empty = nullptr;
  if (hwloc_topology_init(&empty) != 0) return mask;
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> owner(empty, hwloc_topology_destroy);
  const bitmap_ptr set(hwloc_bitmap_alloc());
  if (!set || hwloc_linux_get_tid_cpubind(empty, 0, set.get()) != 0) return mask;
  for (int cpu = hwloc_bitmap_first(set.get()); cpu >= 0; cpu = hwloc_bitmap_next(set.get(), cpu))
    mask.set(static_cast<std::size_t>(cpu));
  return mask;
}

std::string_view to_string(bound outcome) noexcept {
  switch (outcome) {
    case bound::to_cpu: return "bound to its CPU";
    case bound::to_llc: return "bound to its last-level cache";
    case bound::nowhere: return "not bound";
    case bound::not_this_system: return "not bound: not this system";
  }
  return "?";
}

}  // namespace lagom::topology
