// SPDX-License-Identifier: BSL-1.0
#include "os/poller.hpp"

#include <utility>

#include "os/assert.hpp"
#include "state.hpp"

namespace lagom::fake_os {
namespace {

using os::any_of;
using os::interest;
using os::readiness;

readiness of_interest(readiness ready, interest wanted) noexcept {
  readiness reported = readiness::none;
  const auto add = [&](readiness bit, bool is_wanted) {
    if (is_wanted && any_of(ready, bit)) {
      reported = reported | bit;
    }
  };
  add(readiness::readable, any_of(wanted, interest::readable));
  add(readiness::peer_closed, any_of(wanted, interest::readable));
  add(readiness::writable, any_of(wanted, interest::writable));
  add(readiness::hung_up, true);
  add(readiness::error, true);
  return reported;
}

int collect(poller_state& poller, std::span<os::poll_event> out) {
  std::size_t filled = 0;
  for (auto& [descriptor, registered] : poller.registrations) {
    const auto found = the_state().descriptors.find(descriptor);
    if (filled == out.size() || found == the_state().descriptors.end() || !registered.armed) {
      continue;
    }
    const readiness ready = of_interest(found->second.ready, registered.wanted);
    const bool is_old = any_of(registered.wanted, interest::edge) && registered.edge_seen == found->second.edge;
    if (ready == readiness::none || is_old) {
      continue;
    }
    registered.edge_seen = found->second.edge;
    registered.armed = !any_of(registered.wanted, interest::one_shot);
    out[filled++] = {registered.token, ready};
  }
  return static_cast<int>(filled);
}

}  // namespace

void set_ready(int descriptor, os::readiness ready) {
  readiness_state& state = the_state().descriptors[descriptor];
  state.ready = ready;
  ++state.edge;
}

const std::vector<wait_record>& waits() noexcept { return the_state().waits; }

void on_sleep(std::function<void(const wait_record&)> hook) { the_state().sleep = std::move(hook); }

}  // namespace lagom::fake_os

namespace lagom::os {

poller::poller() : epoll_fd_(fake_os::the_state().next_poller++) { fake_os::the_state().pollers[epoll_fd_]; }

poller::~poller() { fake_os::the_state().pollers.erase(epoll_fd_); }

int poller::wait(std::int64_t timeout_ns, std::span<poll_event> out) noexcept {
  LAGOM_ASSERT(!out.empty());
  fake_os::state& fake = fake_os::the_state();
  const bool was_notified = notified_.exchange(false);
  int events = fake_os::collect(fake.pollers.at(epoll_fd_), out);
  fake.waits.push_back({this, timeout_ns, events, was_notified});
  if (timeout_ns != 0 && events == 0 && !was_notified && fake.sleep) {
    const fake_os::wait_record record = fake.waits.back();
    fake.sleep(record);
    notified_.store(false);
    events = fake_os::collect(fake.pollers.at(epoll_fd_), out);
  }
  return events;
}

int poller::look(std::span<poll_event> out) noexcept {
  LAGOM_ASSERT(!out.empty());
  return fake_os::collect(fake_os::the_state().pollers.at(epoll_fd_), out);
}

void poller::notify() noexcept {
  ++fake_os::the_state().counts.notifications;
  notified_.store(true);
}

std::error_code poller::add(int descriptor, interest wanted, std::uint64_t token) noexcept {
  LAGOM_ASSERT(token != reserved_token);
  auto& registrations = fake_os::the_state().pollers.at(epoll_fd_).registrations;
  const bool is_new = registrations.try_emplace(descriptor, fake_os::registration{wanted, token}).second;
  return is_new ? std::error_code{} : std::make_error_code(std::errc::file_exists);
}

std::error_code poller::modify(int descriptor, interest wanted, std::uint64_t token) noexcept {
  LAGOM_ASSERT(token != reserved_token);
  auto& registrations = fake_os::the_state().pollers.at(epoll_fd_).registrations;
  const auto found = registrations.find(descriptor);
  if (found == registrations.end()) {
    return std::make_error_code(std::errc::no_such_file_or_directory);
  }
  found->second = fake_os::registration{wanted, token};
  return {};
}

std::error_code poller::remove(int descriptor) noexcept {
  auto& registrations = fake_os::the_state().pollers.at(epoll_fd_).registrations;
  return registrations.erase(descriptor) == 1 ? std::error_code{}
                                              : std::make_error_code(std::errc::no_such_file_or_directory);
}

void poller::force_millisecond_wait(bool) noexcept {}

}  // namespace lagom::os
