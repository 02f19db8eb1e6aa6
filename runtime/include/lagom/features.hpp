// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <string_view>

#include <lagom/detail/export.hpp>

namespace lagom {
inline namespace v0 {

/// The scheduler's knobs, by kernel-like names ("run_to_parity", "delay_dequeue", …). Value type; checked when parsed.
class features {
 public:
  features() = default;  ///< the runtime's defaults

  /// Comma-separated names, each with an optional "no_" in front or "=value" behind: "no_run_to_parity,delay_dequeue".
  /// The name of a preset in front sets them all: "linux-6.18,no_delay_dequeue"; there are linux-6.12, linux-6.18, linux-7.1,
  /// tip-2026-09 and runtime. Throws std::invalid_argument naming the wrong part and the names that exist.
  LAGOM_EXPORT static features parse(std::string_view list);

  /// What was parsed, to hand on or to print.
  const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

}  // namespace v0
}  // namespace lagom
