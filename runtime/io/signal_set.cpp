// SPDX-License-Identifier: BSL-1.0
#include <span>
#include <system_error>

#include <lagom/io.hpp>

#include "descriptors.hpp"
#include "os/descriptor_wait.hpp"
#include "os/signal_watch.hpp"

namespace lagom {
inline namespace v0 {
namespace io {

signal_set::signal_set(std::initializer_list<int> signals)
    : watch_(std::make_unique<os::signal_watch>(std::span<const int>(signals.begin(), signals.size()))) {}

signal_set::~signal_set() = default;

int signal_set::wait(std::int64_t expiry, std::error_code& ec) noexcept {
  ec.clear();
  for (;;) {
    if (const int number = watch_->take()) return number;
    const detail::io_home home = detail::current_io();
    ec = home.table ? home.table->wait(watch_->descriptor(), detail::direction::read, expiry, detail::wait_reason::signal)
                    : os::wait_for_descriptor(watch_->descriptor(), os::interest::readable, expiry);
    if (ec) return 0;
  }
}

int signal_set::wait() {
  std::error_code ec;
  const int number = wait(detail::never, ec);
  if (ec) throw std::system_error(ec, "lagom::io::signal_set::wait");
  return number;
}

}  // namespace io
}  // namespace v0
}  // namespace lagom
