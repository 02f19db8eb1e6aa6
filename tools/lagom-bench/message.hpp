// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lagom::bench {

inline constexpr std::size_t senders_per_group = 20, receivers_per_group = 20;  // as in perf

/// What is sent: as long as perf's messages, and carrying what the receiver needs to notice a lost, doubled,
/// reordered, misdirected or torn one.
struct message {
  std::uint32_t receiver = 0;
  std::uint32_t sender = 0;
  std::uint32_t sequence = 0;
  std::array<std::byte, 84> filling{};
  std::uint32_t seal = 0;  ///< last, so that a torn message shows
};
static_assert(sizeof(message) == 100);

message compose(std::size_t receiver, std::uint32_t sender, std::uint32_t sequence) noexcept;

/// One receiver's ledger: every sender's messages must arrive once each, in the order sent. Throws check_failed.
class message_ledger {
 public:
  explicit message_ledger(std::size_t receiver) noexcept : receiver_(receiver) {}
  void accept(const message& received);
  void close(std::uint64_t loops) const;

 private:
  std::size_t receiver_;
  std::array<std::uint32_t, senders_per_group> next_{};
};

}  // namespace lagom::bench
