// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "scenario.hpp"

namespace lagom::sim {

// Reads the "config" object. Throws input_error.
config read_config(const json& object);

}  // namespace lagom::sim
