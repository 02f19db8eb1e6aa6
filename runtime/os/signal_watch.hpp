// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <span>

namespace lagom::os {

// Turns signals into readiness of a descriptor, whatever thread they are delivered to and whatever it is doing: a handler
// notes the signal and writes to an eventfd. While a signal is watched its disposition is ours; after the last watch the
// one from before the first is back. Several watches of one signal are all told. A signal that every thread blocks is
// not delivered, so not seen. Handlers have SA_RESTART and run on the alternate stack where there is one.
//
// Rejected: signalfd. It only sees signals that are blocked in every thread, and a library cannot see to that for
// threads that were there before it.
inline constexpr int quit_signal = 3;  // SIGQUIT

class signal_watch {
 public:
  // What becomes of a handler that was there before: nothing, as long as the watch lives; or it is called as well, in the
  // handler, as if it were installed alone. The default action and "ignore" never take place.
  enum class earlier { replaced, called };

  static constexpr int most = 32;  // at a time in a process

  // Throws std::invalid_argument for what is not a signal or cannot be waited for (KILL, STOP, the CPU's own: SEGV, BUS,
  // FPE, ILL; returning from those makes them happen again), std::system_error: EMFILE, ENFILE, EAGAIN (too many watches).
  explicit signal_watch(std::span<const int> signals, earlier handler = earlier::replaced);
  ~signal_watch();
  signal_watch(const signal_watch&) = delete;
  signal_watch& operator=(const signal_watch&) = delete;

  // Readable when take() may find something.
  [[nodiscard]] int descriptor() const noexcept;

  // The lowest signal that has come since it was last taken, 0: none. As with the system, the same one twice counts once.
  int take() noexcept;

 private:
  int slot_ = -1;
  std::uint64_t mask_ = 0;
};

}  // namespace lagom::os
