// SPDX-License-Identifier: BSL-1.0
#include "bounded_queue.hpp"
#include "descriptor.hpp"
#include "pipe.hpp"
#include "thread_team.hpp"

namespace lagom::bench {

namespace {

measurement run_over_descriptors(const pipe_options& what) {
  const descriptor_pair there = make_pipe_ends(), back = make_pipe_ends();
  const auto send_into = [](const descriptor_pair& way) {
    return [number = way.writing.get()](int token) { write_fully(number, &token, sizeof token); };
  };
  const auto receive_from = [](const descriptor_pair& way) {
    return [number = way.reading.get()] {
      int token = 0;
      read_fully(number, &token, sizeof token);
      return token;
    };
  };
  return run_thread_team(2, [&](std::size_t index) {
    if (index == 0) {
      ask(what, send_into(there), receive_from(back));
    } else {
      answer(what, send_into(back), receive_from(there));
    }
  });
}

measurement run_in_memory(const pipe_options& what) {
  bounded_queue<int> there(1), back(1);
  const auto send_into = [](bounded_queue<int>& way) { return [&way](int token) { way.send(token); }; };
  const auto receive_from = [](bounded_queue<int>& way) {
    return [&way] {
      int token = 0;
      way.receive(token);
      return token;
    };
  };
  return run_thread_team(2, [&](std::size_t index) {
    if (index == 0) {
      ask(what, send_into(there), receive_from(back));
    } else {
      answer(what, send_into(back), receive_from(there));
    }
  });
}

}  // namespace

measurement run_pipe_threads(const pipe_options& what, const run_options& options) {
  confine_to_cpus(options.workers);
  measurement span = what.in_memory ? run_in_memory(what) : run_over_descriptors(what);
  span.ops = what.loops;
  return span;
}

}  // namespace lagom::bench
