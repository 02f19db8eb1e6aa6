// SPDX-License-Identifier: BSL-1.0
#include "poller.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include "assert.hpp"

namespace lagom::os {
namespace {

constexpr std::size_t batch_max = 128;

// Relaxed: a hint that saves a failing system call.
std::atomic<bool> milliseconds_only{false};
std::atomic<bool> forced_milliseconds{false};

std::error_code last_error() noexcept { return {errno, std::generic_category()}; }

std::uint32_t to_epoll(interest wanted) noexcept {
  std::uint32_t events = 0;
  if (any_of(wanted, interest::readable)) {
    events |= EPOLLIN | EPOLLRDHUP;
  }
  if (any_of(wanted, interest::writable)) {
    events |= EPOLLOUT;
  }
  if (any_of(wanted, interest::one_shot)) {
    events |= EPOLLONESHOT;
  }
  if (any_of(wanted, interest::edge)) {
    events |= EPOLLET;
  }
  return events;
}

readiness from_epoll(std::uint32_t events) noexcept {
  readiness ready = readiness::none;
  if ((events & (EPOLLIN | EPOLLRDHUP)) != 0) {
    ready = ready | readiness::readable;
  }
  if ((events & EPOLLOUT) != 0) {
    ready = ready | readiness::writable;
  }
  if ((events & EPOLLRDHUP) != 0) {
    ready = ready | readiness::peer_closed;
  }
  if ((events & EPOLLHUP) != 0) {
    ready = ready | readiness::hung_up;
  }
  if ((events & EPOLLERR) != 0) {
    ready = ready | readiness::error;
  }
  return ready;
}

int wait_nanoseconds(int epoll, epoll_event* events, int room, std::int64_t timeout_ns) noexcept {
#if defined(SYS_epoll_pwait2)
  const timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000),
                         static_cast<long>(timeout_ns % 1'000'000'000)};
  return static_cast<int>(::syscall(SYS_epoll_pwait2, epoll, events, room, &timeout, nullptr, 0));
#else
  static_cast<void>(epoll), static_cast<void>(events), static_cast<void>(room), static_cast<void>(timeout_ns);
  errno = ENOSYS;
  return -1;
#endif
}

// 0 and "no limit" need no nanoseconds, and epoll_wait is the call that sanitizers and old kernels know.
int wait_milliseconds(int epoll, epoll_event* events, int room, std::int64_t timeout_ns) noexcept {
  int timeout = -1;
  if (timeout_ns >= 0) {
    // Up, so as not to be early; and no busy loop through the last fraction of a millisecond.
    const std::int64_t rounded = timeout_ns / 1'000'000 + (timeout_ns % 1'000'000 != 0 ? 1 : 0);
    timeout = static_cast<int>(std::min<std::int64_t>(rounded, std::numeric_limits<int>::max()));
  }
  return ::epoll_wait(epoll, events, room, timeout);
}

int wait_for_events(int epoll, epoll_event* events, int room, std::int64_t timeout_ns) noexcept {
  const bool exact = timeout_ns > 0 && !milliseconds_only.load(std::memory_order_relaxed) &&
                     !forced_milliseconds.load(std::memory_order_relaxed);
  if (exact) {
    const int count = wait_nanoseconds(epoll, events, room, timeout_ns);
    // EPERM: what some container runtimes' filters say to calls they do not know.
    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) {
      return count;
    }
    milliseconds_only.store(true, std::memory_order_relaxed);
  }
  return wait_milliseconds(epoll, events, room, timeout_ns);
}

}  // namespace

poller::poller() : epoll_fd_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (epoll_fd_ < 0) {
    throw std::system_error(last_error(), "epoll_create1 (limits: RLIMIT_NOFILE, fs.file-max)");
  }
  event_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event_fd_ < 0) {
    const std::error_code error = last_error();
    ::close(epoll_fd_);
    throw std::system_error(error, "eventfd (limits: RLIMIT_NOFILE, fs.file-max)");
  }
  // Edge-triggered and never read: each write is a new edge, and the counter would take 584 years to fill.
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.u64 = reserved_token;
  if (::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, event_fd_, &event) != 0) {
    const std::error_code error = last_error();
    ::close(event_fd_);
    ::close(epoll_fd_);
    throw std::system_error(error, "epoll_ctl (limit: fs.epoll.max_user_watches)");
  }
}

poller::~poller() {
  ::close(event_fd_);
  ::close(epoll_fd_);
}

int poller::wait(std::int64_t timeout_ns, std::span<poll_event> out) noexcept {
  bool was_notified = false;
  return collect(timeout_ns, out, was_notified);
}

int poller::look(std::span<poll_event> out) noexcept {
  bool was_notified = false;
  const int count = collect(0, out, was_notified);
  if (was_notified) notify();
  return count;
}

int poller::collect(std::int64_t timeout_ns, std::span<poll_event> out, bool& was_notified) noexcept {
  LAGOM_ASSERT(!out.empty());
  const int saved = errno;
  std::array<epoll_event, batch_max> events;
  const int room = static_cast<int>(std::min(out.size(), batch_max));
  const int count = wait_for_events(epoll_fd_, events.data(), room, timeout_ns);
  if (count < 0) {
    LAGOM_ASSERT_MSG(errno == EINTR, "epoll_wait failed: was the runtime's descriptor closed by someone?");
    errno = saved;
    return 0;
  }
  std::size_t filled = 0;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.u64 == reserved_token) {
      // Acquire: pairs with the exchange in notify(). Whoever finds the flag still set has written before this, and
      // its news is seen by our caller, who looks at all sources after wait(); whoever comes later writes again.
      notified_.exchange(false, std::memory_order_acq_rel);
      was_notified = true;
      continue;
    }
    out[filled++] = {event.data.u64, from_epoll(event.events)};
  }
  if (filled != 0) {
    // Acquire: pairs with the release in control(): what a token stands for was written before it was registered.
    // The kernel orders that too, but neither the language nor TSan knows.
    static_cast<void>(registrations_.load(std::memory_order_acquire));
  }
  errno = saved;
  return static_cast<int>(filled);
}

void poller::notify() noexcept {
  if (forks_ != fork_count()) return;
  // Release: pairs with the exchange in wait(). Acquire, so that the write below cannot be ordered before it.
  if (notified_.exchange(true, std::memory_order_acq_rel)) {
    return;
  }
  const int saved = errno;
  const std::uint64_t one = 1;
  ssize_t written = 0;
  do {
    written = ::write(event_fd_, &one, sizeof one);
  } while (written < 0 && errno == EINTR);
  LAGOM_ASSERT_MSG(written == sizeof one, "eventfd write failed: was the runtime's descriptor closed by someone?");
  errno = saved;
}

std::error_code poller::add(int descriptor, interest wanted, std::uint64_t token) noexcept {
  return control(EPOLL_CTL_ADD, descriptor, wanted, token);
}

std::error_code poller::modify(int descriptor, interest wanted, std::uint64_t token) noexcept {
  return control(EPOLL_CTL_MOD, descriptor, wanted, token);
}

std::error_code poller::remove(int descriptor) noexcept {
  return control(EPOLL_CTL_DEL, descriptor, interest::none, 0);
}

std::error_code poller::control(int operation, int descriptor, interest wanted, std::uint64_t token) noexcept {
  LAGOM_ASSERT(token != reserved_token);
  if (forks_ != fork_count()) return {};
  // Release: pairs with the acquire in wait().
  registrations_.fetch_add(1, std::memory_order_release);
  epoll_event event{};
  event.events = to_epoll(wanted);
  event.data.u64 = token;
  const int saved = errno;
  std::error_code result;
  if (::epoll_ctl(epoll_fd_, operation, descriptor, &event) != 0) {
    result = last_error();
  }
  errno = saved;
  return result;
}

void poller::force_millisecond_wait(bool force) noexcept {
  forced_milliseconds.store(force, std::memory_order_relaxed);
}

}  // namespace lagom::os
