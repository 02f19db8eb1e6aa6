// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <lagom/detail/export.hpp>

namespace lagom {
inline namespace v0 {

/// A set of logical CPUs by the operating system's numbers. Grows as needed: machines with more than 1,024 CPUs exist.
class cpu_set {
 public:
  cpu_set() = default;

  /// "0-3,8" as in /sys and taskset -c. Throws std::invalid_argument naming the part that is wrong. CPU numbers up to 65,535.
  LAGOM_EXPORT static cpu_set parse(std::string_view text);

  LAGOM_EXPORT void set(unsigned cpu);
  LAGOM_EXPORT void reset(unsigned cpu) noexcept;
  LAGOM_EXPORT bool test(unsigned cpu) const noexcept;
  LAGOM_EXPORT std::size_t count() const noexcept;
  bool empty() const noexcept { return words_.empty(); }
  /// Smallest CPU >= from, or `none`.
  LAGOM_EXPORT unsigned next(unsigned from) const noexcept;
  static constexpr unsigned none = ~0u;

  LAGOM_EXPORT std::string to_string() const;
  friend bool operator==(const cpu_set&, const cpu_set&) = default;

 private:
  std::vector<std::uint64_t> words_;  // never ends in a zero word, so that == and empty() are exact
};

}  // namespace v0
}  // namespace lagom
