// SPDX-License-Identifier: BSL-1.0
#include <cstdio>

#include "globals.hpp"

namespace {

struct user {
  ~user() {
    // Stopped, ended or neither: posting says so, and does not crash.
    const bool posted = shared_runtime.post([] {});
    std::fprintf(stderr, "posted at the end: %d\n", posted);
  }
} at_the_end;

}  // namespace
