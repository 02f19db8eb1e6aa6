// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace lagom {
inline namespace v0 {
namespace detail {

/// What busy workers tell the others, one bit each at their seat. Changed seldom: a worker looks like overloaded, or has
/// nothing but the idle class, for many switches on end. All of it hints: who acts on a stale bit looks in vain, and the
/// monitor sees within a tick what nobody acted on.
class published_words {
 public:
  explicit published_words(std::size_t words) : words_(words), line_(std::make_unique<line[]>(words)) {}

  enum class kind : std::uint8_t { overloaded, idle_only };

  void set(kind what, std::uint32_t seat, bool on) noexcept {
    auto& word = of(what, seat / 64);
    const std::uint64_t bit = std::uint64_t{1} << (seat % 64);
    // relaxed: hints, see above.
    on ? word.fetch_or(bit, std::memory_order_relaxed) : word.fetch_and(~bit, std::memory_order_relaxed);
  }
  std::uint64_t word(kind what, std::size_t i) const noexcept {
    return (what == kind::overloaded ? line_[i].overloaded : line_[i].idle_only).load(std::memory_order_relaxed);  // hints
  }
  /// Is anybody overloaded but the one at `seat`?
  bool others_overloaded(std::uint32_t seat) const noexcept {
    for (std::size_t i = 0; i < words_; ++i) {
      std::uint64_t set = word(kind::overloaded, i);
      if (i == seat / 64) set &= ~(std::uint64_t{1} << (seat % 64));
      if (set != 0) return true;
    }
    return false;
  }

 private:
  struct alignas(64) line {
    std::atomic<std::uint64_t> overloaded{0}, idle_only{0};
  };
  std::atomic<std::uint64_t>& of(kind what, std::size_t i) noexcept {
    return what == kind::overloaded ? line_[i].overloaded : line_[i].idle_only;
  }

  std::size_t words_;
  std::unique_ptr<line[]> line_;
};

}  // namespace detail
}  // namespace v0
}  // namespace lagom
