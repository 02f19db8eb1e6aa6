// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include "measurement.hpp"
#include "run_options.hpp"

namespace lagom::bench {

struct pipe_options {
  std::uint64_t loops = 1'000'000;
  bool threaded = false;  ///< perf's -T; the OS form always is threads
  bool in_memory = false;
};

/// The two sides, whatever carries the token. Each round trip carries its own number, so a lost or doubled one shows.
/// `send(int)`, `receive()`; check_failed when the wrong number comes back.
template <class Send, class Receive>
void ask(const pipe_options& what, const Send& send, const Receive& receive) {
  for (std::uint64_t round = 0; round < what.loops; ++round) {
    const int token = static_cast<int>(round & 0x7fff'ffff);
    send(token);
    if (receive() != ~token) {
      throw check_failed("the wrong token came back");
    }
  }
}

template <class Send, class Receive>
void answer(const pipe_options& what, const Send& send, const Receive& receive) {
  for (std::uint64_t round = 0; round < what.loops; ++round) {
    const int token = receive();
    if (token != static_cast<int>(round & 0x7fff'ffff)) {
      throw check_failed("the wrong token arrived");
    }
    send(~token);
  }
}

measurement run_pipe_fibers(const pipe_options& what, const run_options& options);
measurement run_pipe_threads(const pipe_options& what, const run_options& options);

}  // namespace lagom::bench
