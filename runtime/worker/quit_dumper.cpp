// SPDX-License-Identifier: BSL-1.0
#include "quit_dumper.hpp"

#include <cstdint>
#include <span>
#include <sstream>
#include <string>

#include "os/clock.hpp"
#include "os/descriptor_wait.hpp"
#include "runtime_core.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

void quit_dumper::start() {
  const int signals[] = {os::quit_signal};
  watch_.emplace(signals, os::signal_watch::earlier::called);
  thread_ = os::native_thread("lagom-dump", [this] { run(); });
}

void quit_dumper::stop() noexcept {
  if (thread_.joinable()) {
    stopping_.store(true, std::memory_order_release);  // before the wake; pairs with run()
    const std::uint64_t one = 1;
    static_cast<void>(os::write_descriptor(watch_->descriptor(), std::as_bytes(std::span(&one, 1))));
    thread_.join();
  }
  watch_.reset();
}

void quit_dumper::run() {
  // acquire: pairs with stop().
  while (!stopping_.load(std::memory_order_acquire)) {
    static_cast<void>(os::wait_for_descriptor(watch_->descriptor(), os::interest::readable, os::never));
    if (watch_->take() != 0) dump();
  }
}

void quit_dumper::dump() const {
  std::ostringstream text;
  core_.dump(text);
  if (core_.options.log) {
    std::istringstream lines(text.str());
    for (std::string line; std::getline(lines, line);) core_.log(line);
    return;
  }
  const std::string all = text.str();
  std::span<const std::byte> left = std::as_bytes(std::span(all.data(), all.size()));
  while (!left.empty()) {
    const os::transfer done = os::write_descriptor(2, left);
    if (done.count == 0) return;
    left = left.subspan(done.count);
  }
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
