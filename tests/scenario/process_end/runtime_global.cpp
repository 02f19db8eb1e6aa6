// SPDX-License-Identifier: BSL-1.0
#include "globals.hpp"

lagom::runtime shared_runtime({.workers = 2});
