// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <lagom/lagom.hpp>

// A runtime that is a global of one file, and somebody in another whose destructor uses it. The order of their ends is that
// of the link.
extern lagom::runtime shared_runtime;
