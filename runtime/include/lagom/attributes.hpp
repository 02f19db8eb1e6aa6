// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include <lagom/cpu_set.hpp>

namespace lagom {
inline namespace v0 {

/// Scheduling class, as SCHED_OTHER, SCHED_BATCH, SCHED_IDLE. batch never preempts on wake-up; idle has weight 3,
/// never preempts and is always preempted by the others.
enum class policy { normal, batch, idle };

/// What a fiber is spawned with and what get_attributes() reads back. Aggregate; fields are only ever appended.
struct attributes {
  std::string name{};                        ///< for dumps and traces
  lagom::policy policy = policy::normal;
  int nice = 0;                              ///< -20 … 19, out of range is clamped as Linux does; one step is about 10 % of CPU
  std::chrono::nanoseconds slice{0};         ///< 1 µs … 100 ms: shorter = earlier virtual deadline, same share. 0: the runtime's default
  std::optional<int> util_min{}, util_max{}; ///< 0 … 1024; unset: implicit
  cpu_set affinity{};                        ///< CPUs whose workers may run it; empty: any
  bool pinned = false;                       ///< stays on the worker it starts on
  std::size_t stack_size = 0;                ///< bytes of address space, at least 16 KiB; 0: the runtime's default; fixed at spawn
  /// Memory to run on instead of a stack of the runtime's, at least 16 KiB, at any address; the callable and some hundred bytes come
  /// out of it. It must last until the fiber has ended (join() has returned). It has no guard: an overflow writes into what is below.
  /// stack_size must be 0 then.
  std::span<std::byte> stack{};
};

/// A change of some attributes; what is unset stays as it is. Aggregate; fields are only ever appended.
struct attribute_change {
  std::optional<lagom::policy> policy{};
  std::optional<int> nice{};                          ///< out of range is clamped
  std::optional<std::chrono::nanoseconds> slice{};    ///< 0: default mode, which follows the runtime's default
  std::optional<int> util_min{}, util_max{};          ///< 0 … 1024
  bool reset_util_min = false, reset_util_max = false;  ///< back to implicit
  bool keep_params = false;                           ///< nice and slice stay, even if they are named above
  std::optional<cpu_set> affinity{};                  ///< empty: anywhere
  std::optional<std::string> name{};
  std::optional<bool> pinned{};                       ///< true: stays on the worker where it is now
};

}  // namespace v0
}  // namespace lagom
