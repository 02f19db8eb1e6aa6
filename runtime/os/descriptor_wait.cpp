// SPDX-License-Identifier: BSL-1.0
#include "descriptor_wait.hpp"

#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

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
int poll_until(pollfd& what, std::int64_t expiry_ns) noexcept {
  if (expiry_ns == never) return ::ppoll(&what, 1, nullptr, nullptr);
  const std::int64_t left = expiry_ns <= 0 ? 0 : std::max<std::int64_t>(expiry_ns - monotonic_ns(), 0);
  const timespec timeout{static_cast<time_t>(left / 1'000'000'000), static_cast<long>(left % 1'000'000'000)};
  return ::ppoll(&what, 1, &timeout, nullptr);
}

}  // namespace

std::error_code wait_for_descriptor(int descriptor, interest wanted, std::int64_t expiry_ns) noexcept {
  // poll() passes over negative descriptors, for ever if there is no limit.
  if (descriptor < 0) return as_error(EBADF);
  const int saved = errno;
  std::error_code result;
  for (;;) {
    pollfd what{descriptor, poll_events(wanted), 0};
    const int found = poll_until(what, expiry_ns);
    if (found > 0) {
      if ((what.revents & POLLNVAL) != 0) result = as_error(EBADF);
      break;
    }
    if (found == 0) {
      result = as_error(ETIMEDOUT);
      break;
    }
    if (errno != EINTR) {
      result = as_error(errno);
      break;
    }
  }
  errno = saved;
  return result;
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
