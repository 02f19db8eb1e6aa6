// SPDX-License-Identifier: BSL-1.0
#include <deque>
#include <utility>

#include "fiber_team.hpp"
#include "messaging.hpp"

namespace lagom::bench {

measurement run_messaging_fibers(const messaging_options& what, const run_options& options) {
  std::deque<channel<message>> inboxes;
  for (std::size_t receiver = 0; receiver < what.groups * messaging_options::receivers; ++receiver) {
    inboxes.emplace_back(messaging_options::channel_capacity);
  }
  const auto send = [&](std::size_t receiver, message&& sent) {
    if (inboxes[receiver].send(std::move(sent)) != channel_status::ok) {
      throw check_failed("a channel refused a message");
    }
  };
  measurement span = run_fiber_team(options, what.members(), [&](std::size_t index) {
    const messaging_role self(index);
    if (!self.is_receiver()) {
      send_all(self, what, send);
      return;
    }
    auto& inbox = inboxes[self.receiver()];
    receive_all(self, what, [&inbox](message& received) {
      if (inbox.receive(received) != channel_status::ok) {
        throw check_failed("a channel ended before its last message");
      }
    });
  });
  span.ops = what.messages();
  return span;
}

}  // namespace lagom::bench
