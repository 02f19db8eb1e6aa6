// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <lagom/runtime.hpp>

#include "scheduler/features.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

/// Fills defaults and the environment in, checks everything. Throws std::invalid_argument: what, where, what would be right.
runtime_options checked_options(runtime_options options);
/// The policy's knobs for checked options.
scheduler::features knobs_for(const runtime_options& options);

}  // namespace detail
}  // namespace v0
}  // namespace lagom
