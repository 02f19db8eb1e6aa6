// SPDX-License-Identifier: BSL-1.0
#include "fiber_team.hpp"
#include "pipe.hpp"

namespace lagom::bench {

measurement run_pipe_fibers(const pipe_options& what, const run_options& options) {
  channel<int> there(1), back(1);
  const auto send_into = [](channel<int>& way) {
    return [&way](int token) {
      if (way.send(std::move(token)) != channel_status::ok) {
        throw check_failed("a channel refused the token");
      }
    };
  };
  const auto receive_from = [](channel<int>& way) {
    return [&way] {
      int token = 0;
      if (way.receive(token) != channel_status::ok) {
        throw check_failed("a channel ended before the last token");
      }
      return token;
    };
  };
  measurement span = run_fiber_team(options, 2, [&](std::size_t index) {
    if (index == 0) {
      ask(what, send_into(there), receive_from(back));
    } else {
      answer(what, send_into(back), receive_from(there));
    }
  });
  span.ops = what.loops;
  return span;
}

}  // namespace lagom::bench
