// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

namespace lagom::sim {

// Random numbers of our own (SplitMix64): the standard's distributions differ between libraries, and one seed is to give
// one run everywhere.
class generator {
 public:
  explicit generator(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  // Uniform in [least, most]; the bias of the remainder is below 2^-30 for spans below 2^34.
  std::int64_t between(std::int64_t least, std::int64_t most) {
    const std::uint64_t span = static_cast<std::uint64_t>(most - least) + 1;
    return span == 0 ? static_cast<std::int64_t>(next()) : least + static_cast<std::int64_t>(next() % span);
  }

 private:
  std::uint64_t state_;
};

}  // namespace lagom::sim
