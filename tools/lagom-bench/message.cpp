// SPDX-License-Identifier: BSL-1.0
#include "message.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "measurement.hpp"

namespace lagom::bench {

namespace {

std::uint32_t seal_of(std::size_t receiver, std::uint32_t sender, std::uint32_t sequence) noexcept {
  return static_cast<std::uint32_t>(receiver) ^ (sender << 24) ^ ~sequence;
}

}  // namespace

message compose(std::size_t receiver, std::uint32_t sender, std::uint32_t sequence) noexcept {
  message composed;
  composed.receiver = static_cast<std::uint32_t>(receiver);
  composed.sender = sender;
  composed.sequence = sequence;
  composed.seal = seal_of(receiver, sender, sequence);
  return composed;
}

void message_ledger::accept(const message& received) {
  if (received.receiver != receiver_ || received.sender >= senders_per_group ||
      received.seal != seal_of(received.receiver, received.sender, received.sequence)) {
    throw check_failed(fmt::format("receiver {} got a damaged or misdirected message", receiver_));
  }
  auto& next = next_[received.sender];
  if (received.sequence != next) {
    throw check_failed(fmt::format("receiver {} got message {} of sender {} where {} was due", receiver_,
                                   received.sequence, received.sender, next));
  }
  ++next;
}

void message_ledger::close(std::uint64_t loops) const {
  if (!std::all_of(next_.begin(), next_.end(), [loops](std::uint32_t next) { return next == loops; })) {
    throw check_failed(fmt::format("receiver {} missed messages", receiver_));
  }
}

}  // namespace lagom::bench
