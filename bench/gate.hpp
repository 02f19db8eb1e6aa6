// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include <lagom/lagom.hpp>

namespace lagom::bench {

/// A gate program does one thing a given number of times on one worker, so that gate.py can count the instructions
/// of two runs and divide their difference: what starting and stopping cost falls out.
/// `body(operations)` runs inside a fiber and returns what it counted, which must be `operations`.
template <class Body>
int run_gate(int argc, char** argv, const Body& body) {
  std::uint64_t operations = 0;
  if (argc == 2) {
    const std::string_view text = argv[1];
    std::from_chars(text.data(), text.data() + text.size(), operations);
  }
  if (operations == 0) {
    std::fprintf(stderr, "usage: %s OPERATIONS\n", argv[0]);
    return EXIT_FAILURE;
  }
  try {
    runtime_options options{};
    options.workers = 1;
    options.pin_mode = pin::none;
    runtime rt(options);
    const std::uint64_t counted = rt.run([&]() -> std::uint64_t { return body(operations); });
    if (counted != operations) {
      std::fprintf(stderr, "%s: counted %llu\n", argv[0], static_cast<unsigned long long>(counted));
      return EXIT_FAILURE;
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}

}  // namespace lagom::bench
