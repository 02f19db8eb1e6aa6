// SPDX-License-Identifier: BSL-1.0
#include "utilization.hpp"

#include <algorithm>
#include <array>

namespace lagom::scheduler {

namespace {

constexpr unsigned half_life = 32;
constexpr unsigned one_bits = 31;  // y^n and its complement are kept in 2^-31

// floor((2^32 - 1) * 2^(-n/32)).
constexpr std::array<std::uint32_t, half_life> falling{
    4294967295, 4202935002, 4112874772, 4024744346, 3938502374, 3854108390, 3771522795, 3690706838,
    3611622601, 3534232977, 3458501652, 3384393093, 3311872528, 3240905929, 3171459998, 3103502150,
    3037000499, 2971923841, 2908241641, 2845924020, 2784941737, 2725266178, 2666869343, 2609723833,
    2553802832, 2499080104, 2445529971, 2393127306, 2341847523, 2291666560, 2242560871, 2194507416};

}  // namespace

std::uint64_t decayed(std::uint64_t v, std::uint32_t periods) {
  if (periods > half_life * 63) return 0;
  v >>= periods / half_life;
  const std::uint64_t y = falling[periods % half_life];
  if (v <= ~std::uint32_t{0}) return v * y >> 32;
  return static_cast<std::uint64_t>((static_cast<unsigned_wide>(v) * y) >> 32);
}

void utilization::fold(nanos now, nanos service) {
  const std::uint32_t periods = period_at(now) - period_;
  // The past: clocks that are read in different places may disagree by a little.
  if (periods == 0 || periods > ~std::uint32_t{0} / 2) return;
  const std::uint64_t window = static_cast<std::uint64_t>(periods) << period_bits;
  const std::uint64_t ran = std::min(static_cast<std::uint64_t>(std::max<nanos>(service - counted_, 0)), window);
  const std::uint64_t stays = decayed(std::uint64_t{1} << one_bits, periods);
  const std::uint64_t comes = (std::uint64_t{1} << one_bits) - stays;
  // comes * ran / window, without 128 bits unless that is long.
  const std::uint64_t part = ran <= ~std::uint32_t{0}
                                 ? (comes * ran >> period_bits) / periods
                                 : static_cast<std::uint64_t>(static_cast<unsigned_wide>(comes) * ran / window);
  const std::uint64_t sum = ((static_cast<std::uint64_t>(value_) * stays) >> one_bits) + ((part * capacity_scale) >> (one_bits - fraction_bits));
  value_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(sum, ~std::uint32_t{0}));
  counted_ += static_cast<nanos>(ran);
  // Service beyond the window is of the period that has just begun; more than a period of it there cannot be.
  counted_ = std::max(counted_, service - (nanos{1} << period_bits));
  period_ += periods;
}

}  // namespace lagom::scheduler
