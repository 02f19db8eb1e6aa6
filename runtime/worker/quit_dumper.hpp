// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <optional>

#include "os/signal_watch.hpp"
#include "os/thread.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

class runtime_core;

/// runtime_options::dump_on_sigquit: a thread that dumps the runtime's fibers when the process gets a SIGQUIT. The signal's
/// handler only writes to a descriptor; the dump allocates and must not run inside whatever was interrupted.
class quit_dumper {
 public:
  explicit quit_dumper(const runtime_core& core) noexcept : core_(core) {}
  void start();           // throws std::system_error
  void stop() noexcept;   // gives the signal back; nothing if it was not started

 private:
  void run();
  void dump() const;

  const runtime_core& core_;
  std::optional<os::signal_watch> watch_;
  os::native_thread thread_;
  std::atomic<bool> stopping_{false};
};

}  // namespace detail
}  // namespace v0
}  // namespace lagom
