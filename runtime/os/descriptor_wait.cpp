// SPDX-License-Identifier: BSL-1.0
#include "descriptor_wait.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "assert.hpp"
#include "clock.hpp"

namespace lagom::os {
namespace {

std::error_code as_error(int number) noexcept { return {number, std::generic_category()}; }

// Larger ones are refused by some descriptors and cut short by the rest.
constexpr std::size_t transfer_max = std::size_t{1} << 30;

short poll_events(interest wanted) noexcept {
  int events = 0;
  if (any_of(wanted, interest::readable)) events |= POLLIN | POLLRDHUP;
  if (any_of(wanted, interest::writable)) events |= POLLOUT;
  return static_cast<short>(events);
}

// > 0: something is the case; 0: expired; < 0: errno.
int poll_until(std::span<pollfd> what, std::int64_t expiry_ns) noexcept {
  if (expiry_ns == never) return ::ppoll(what.data(), what.size(), nullptr, nullptr);
  const std::int64_t left = expiry_ns <= 0 ? 0 : std::max<std::int64_t>(expiry_ns - monotonic_ns(), 0);
  const timespec timeout{static_cast<time_t>(left / 1'000'000'000), static_cast<long>(left % 1'000'000'000)};
  return ::ppoll(what.data(), what.size(), &timeout, nullptr);
}

std::error_code poll_repeatedly(std::span<pollfd> what, std::int64_t expiry_ns) noexcept {
  // poll() passes over negative descriptors, for ever if there is no limit.
  if (what[0].fd < 0) return as_error(EBADF);
  const int saved = errno;
  int found = 0;
  do {
    found = poll_until(what, expiry_ns);
  } while (found < 0 && errno == EINTR);
  std::error_code result;
  if (found < 0) {
    result = as_error(errno);
  } else if (found == 0) {
    result = as_error(ETIMEDOUT);
  } else if ((what[0].revents & POLLNVAL) != 0) {
    result = as_error(EBADF);
  }
  errno = saved;
  return result;
}

}  // namespace

std::error_code wait_for_descriptor(int descriptor, interest wanted, std::int64_t expiry_ns) noexcept {
  std::array<pollfd, 1> what{{{descriptor, poll_events(wanted), 0}}};
  return poll_repeatedly(what, expiry_ns);
}

std::error_code wait_for_descriptor(int descriptor, interest wanted, std::int64_t expiry_ns, waker& stopper) noexcept {
  LAGOM_ASSERT(stopper.event_fd_ >= 0);
  std::array<pollfd, 2> what{{{descriptor, poll_events(wanted), 0}, {stopper.event_fd_, POLLIN, 0}}};
  const std::error_code result = poll_repeatedly(what, expiry_ns);
  if ((what[1].revents & POLLIN) == 0) return result;
  std::uint64_t count = 0;
  static_cast<void>(read_descriptor(stopper.event_fd_, std::as_writable_bytes(std::span(&count, 1))));
  return as_error(EINTR);
}

std::error_code waker::open() noexcept {
  if (event_fd_ >= 0) return {};
  const int saved = errno;
  event_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const std::error_code result = event_fd_ < 0 ? as_error(errno) : std::error_code();
  errno = saved;
  return result;
}

waker::~waker() {
  if (event_fd_ >= 0) ::close(event_fd_);
}

waker& waker::of_this_thread() noexcept {
  thread_local waker own;
  return own;
}

void waker::notify() noexcept {
  const std::uint64_t one = 1;
  const transfer written = write_descriptor(event_fd_, std::as_bytes(std::span(&one, 1)));
  LAGOM_ASSERT_MSG(!written.error, "eventfd write failed: was the runtime's descriptor closed by someone?");
}

transfer read_descriptor(int descriptor, std::span<std::byte> into) noexcept {
  const int saved = errno;
  transfer result;
  ssize_t got = 0;
  do {
    got = ::read(descriptor, into.data(), std::min(into.size(), transfer_max));
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    result.error = as_error(errno);
  } else {
    result.count = static_cast<std::size_t>(got);
  }
  errno = saved;
  return result;
}

transfer write_descriptor(int descriptor, std::span<const std::byte> from) noexcept {
  const int saved = errno;
  transfer result;
  ssize_t put = 0;
  do {
    put = ::write(descriptor, from.data(), std::min(from.size(), transfer_max));
  } while (put < 0 && errno == EINTR);
  if (put < 0) {
    result.error = as_error(errno);
  } else {
    result.count = static_cast<std::size_t>(put);
  }
  errno = saved;
  return result;
}

}  // namespace lagom::os
