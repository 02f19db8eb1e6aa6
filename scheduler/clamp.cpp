// SPDX-License-Identifier: BSL-1.0
#include "clamp.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace lagom::scheduler {

void clamp_levels::add(std::uint16_t value) {
  assert(value <= capacity_scale);
  if (count_[value]++ == 0) {
    used_[value / 64] |= std::uint64_t{1} << (value % 64);
    used_words_ |= std::uint32_t{1} << (value / 64);
    top_ = std::max(top_, value);
  }
}

void clamp_levels::remove(std::uint16_t value) {
  assert(value <= capacity_scale);
  assert(count_[value] > 0);
  if (--count_[value] > 0) {
    return;
  }
  std::uint64_t& word = used_[value / 64];
  word &= ~(std::uint64_t{1} << (value % 64));
  if (word == 0) {
    used_words_ &= ~(std::uint32_t{1} << (value / 64));
  }
  if (value == top_) {
    top_ = find_top();
  }
}

std::uint16_t clamp_levels::find_top() const {
  if (used_words_ == 0) {
    return 0;
  }
  const auto word = static_cast<unsigned>(std::bit_width(used_words_)) - 1;
  return static_cast<std::uint16_t>(word * 64 + static_cast<unsigned>(std::bit_width(used_[word])) - 1);
}

void clamp_tally::count(clamp_range clamp) {
  assert(!clamp.is_neutral());
  min_.add(clamp.min);
  max_.add(clamp.max);
  ++clamped_;
}

void clamp_tally::strike(clamp_range clamp) {
  assert(clamped_ > 0);
  min_.remove(clamp.min);
  max_.remove(clamp.max);
  --clamped_;
}

clamp_summary clamp_tally::summary() {
  if (!leaving_.is_neutral()) {
    strike(leaving_);
    leaving_ = {};
  }
  return {min_.top(), max_.top(), clamped_};
}

std::optional<clamp_range> clamp_forwarder::consider(clamp_range wanted, nanos now) {
  const direction to = wanted == passed_on_                                           ? direction::none
                       : wanted.min > passed_on_.min || wanted.max > passed_on_.max ? direction::up
                                                                                    : direction::down;
  if (to != wanted_) {
    wanted_ = to;
    wanted_since_ = now;
  }
  if (to == direction::none || now - wanted_since_ < (to == direction::up ? raise_after : lower_after)) {
    return std::nullopt;
  }
  if (has_called_ && now - last_call_ < call_interval) {
    return std::nullopt;
  }
  has_called_ = true;
  last_call_ = now;
  passed_on_ = wanted;
  wanted_ = direction::none;
  return wanted;
}

}  // namespace lagom::scheduler
