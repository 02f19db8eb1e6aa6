// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "summary.hpp"

namespace lagom::bench {

/// An SVG picture: one column per backend, one dot per run, a bar at the median; ns per operation on a logarithmic
/// axis.
std::string draw(std::string_view title, const std::vector<summary>& all);

/// Throws usage_error when nothing can be written there. Leaves an existing file as it is.
void require_writable(const std::string& file);

/// Throws std::system_error.
void write_file(const std::string& file, std::string_view text);

}  // namespace lagom::bench
