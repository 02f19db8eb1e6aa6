// SPDX-License-Identifier: BSL-1.0
#include "simulation.hpp"

namespace lagom::sim {

std::string html_report(const simulation& done) { return text_report(done); }

}  // namespace lagom::sim
