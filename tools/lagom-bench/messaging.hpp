// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "measurement.hpp"
#include "message.hpp"
#include "run_options.hpp"

namespace lagom::bench {

struct messaging_options {
  std::uint64_t groups = 10;
  std::uint64_t loops = 100;
  bool use_pipe = false;
  bool in_memory = false;
  bool threads = false;  ///< perf's -t; the OS form always is threads

  static constexpr std::size_t senders = senders_per_group, receivers = receivers_per_group;
  static constexpr std::size_t channel_capacity = 64;

  std::size_t members() const noexcept { return groups * (senders + receivers); }
  std::uint64_t messages() const noexcept { return groups * senders * receivers * loops; }
};

/// Who a member of the team is. Within a group the receivers come first, so that they wait when the senders start.
struct messaging_role {
  explicit messaging_role(std::size_t index) noexcept
      : group(index / (messaging_options::senders + messaging_options::receivers)),
        place(index % (messaging_options::senders + messaging_options::receivers)) {}

  std::size_t group;
  std::size_t place;

  bool is_receiver() const noexcept { return place < messaging_options::receivers; }
  std::uint32_t sender() const noexcept { return static_cast<std::uint32_t>(place - messaging_options::receivers); }
  /// Counted over all groups.
  std::size_t receiver() const noexcept { return receiver_of(place); }
  std::size_t receiver_of(std::size_t place_in_group) const noexcept {
    return group * messaging_options::receivers + place_in_group;
  }
};

/// The two loops, whatever carries the messages: `send(receiver, message)` and `receive(message&)`.
template <class Send>
void send_all(const messaging_role& self, const messaging_options& what, const Send& send) {
  for (std::uint32_t sequence = 0; sequence < what.loops; ++sequence) {
    for (std::size_t place = 0; place < messaging_options::receivers; ++place) {
      const std::size_t receiver = self.receiver_of(place);
      send(receiver, compose(receiver, self.sender(), sequence));
    }
  }
}

template <class Receive>
void receive_all(const messaging_role& self, const messaging_options& what, const Receive& receive) {
  message_ledger ledger(self.receiver());
  message received;
  for (std::uint64_t count = 0; count < messaging_options::senders * what.loops; ++count) {
    receive(received);
    ledger.accept(received);
  }
  ledger.close(what.loops);
}

measurement run_messaging_fibers(const messaging_options& what, const run_options& options);
measurement run_messaging_threads(const messaging_options& what, const run_options& options);

}  // namespace lagom::bench
