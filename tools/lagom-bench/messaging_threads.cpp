// SPDX-License-Identifier: BSL-1.0
#include <deque>
#include <vector>

#include "bounded_queue.hpp"
#include "descriptor.hpp"
#include "messaging.hpp"
#include "thread_team.hpp"

namespace lagom::bench {

namespace {

measurement run_over_descriptors(const messaging_options& what) {
  std::vector<descriptor_pair> inboxes;
  for (std::size_t receiver = 0; receiver < what.groups * messaging_options::receivers; ++receiver) {
    inboxes.push_back(what.use_pipe ? make_pipe_ends() : make_socket_ends());
  }
  return run_thread_team(what.members(), [&](std::size_t index) {
    const messaging_role self(index);
    if (!self.is_receiver()) {
      send_all(self, what, [&](std::size_t receiver, const message& sent) {
        write_fully(inboxes[receiver].writing.get(), &sent, sizeof sent);
      });
      return;
    }
    const int inbox = inboxes[self.receiver()].reading.get();
    receive_all(self, what, [inbox](message& received) { read_fully(inbox, &received, sizeof received); });
  });
}

measurement run_in_memory(const messaging_options& what) {
  std::deque<bounded_queue<message>> inboxes;
  for (std::size_t receiver = 0; receiver < what.groups * messaging_options::receivers; ++receiver) {
    inboxes.emplace_back(messaging_options::channel_capacity);
  }
  return run_thread_team(what.members(), [&](std::size_t index) {
    const messaging_role self(index);
    if (!self.is_receiver()) {
      send_all(self, what, [&](std::size_t receiver, const message& sent) { inboxes[receiver].send(sent); });
      return;
    }
    auto& inbox = inboxes[self.receiver()];
    receive_all(self, what, [&inbox](message& received) { inbox.receive(received); });
  });
}

}  // namespace

measurement run_messaging_threads(const messaging_options& what, const run_options& options) {
  confine_to_cpus(options.workers);
  raise_descriptor_limit();
  measurement span = what.in_memory ? run_in_memory(what) : run_over_descriptors(what);
  span.ops = what.messages();
  return span;
}

}  // namespace lagom::bench
