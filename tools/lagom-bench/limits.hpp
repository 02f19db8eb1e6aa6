// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

namespace lagom::bench {

/// A parked fiber's touched stack pages and control block, for an estimate before a run: 2 pages and some.
inline constexpr std::uint64_t bytes_per_fiber = 12'288;

/// Each throws usage_error when the machine cannot give that much, so that nothing is half-started. The kernel may
/// still refuse later (others want resources too): that is a failed run, not a usage error.
void require_threads(std::uint64_t count);
void require_descriptors(std::uint64_t count);
void require_memory(std::uint64_t bytes);

}  // namespace lagom::bench
