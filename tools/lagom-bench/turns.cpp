// SPDX-License-Identifier: BSL-1.0
#include "turns.hpp"

#include <fmt/format.h>

namespace lagom::bench {

std::uint64_t turns::total() const {
  std::uint64_t sum = 0;
  for (std::size_t member = 0; member < taken_.size(); ++member) {
    if (taken_[member].turns == 0) {
      throw check_failed(fmt::format("member {} never had a turn", member));
    }
    sum += taken_[member].turns;
  }
  return sum;
}

double turns::handovers() const {
  std::uint64_t sum = 0;
  for (const auto& member : taken_) {
    sum += member.handovers;
  }
  return static_cast<double>(sum) / static_cast<double>(total());
}

}  // namespace lagom::bench
