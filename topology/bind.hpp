// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "topology.hpp"

namespace lagom::topology {

// What came of an attempt to bind; none of them is a reason to stop.
enum class bound : std::uint8_t {
  to_cpu,
  to_llc,           // to all allowed CPUs of the last-level cache: asked for, or the CPU is gone
  nowhere,          // neither was possible: the thread's mask is as before
  not_this_system,  // the topology is made up: nothing was tried
};

// Bind the calling thread. `cpu` is an index into machine::cpus. Any thread, at any time; the machine is only read.
// Each is one system call, or two.
bound bind_to_cpu(const machine& where, std::size_t cpu) noexcept;
bound bind_to_llc(const machine& where, std::size_t cpu) noexcept;
// Back to all CPUs of the machine value. True if that succeeded.
bool unbind(const machine& where) noexcept;

// The CPUs the calling thread may use now, as the kernel says, whatever topology is in use; empty if it does not answer.
// Differs from what was asked for when a CPU went away or came back. Allocates; some microseconds.
cpu_set current_mask();

std::string_view to_string(bound outcome) noexcept;

}  // namespace lagom::topology
