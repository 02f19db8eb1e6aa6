// SPDX-License-Identifier: BSL-1.0
#include "futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "assert.hpp"
#include "clock.hpp"

namespace lagom::os {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t), "the kernel looks at the bare word");

std::uint32_t* bare(std::atomic<std::uint32_t>& word) noexcept { return reinterpret_cast<std::uint32_t*>(&word); }

}  // namespace

futex_result futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::int64_t expiry_ns) noexcept {
  // WAIT_BITSET and not WAIT: its timeout is absolute.
  timespec expiry{};
  const timespec* limit = nullptr;
  if (expiry_ns != never) {
    const std::int64_t from_boot = expiry_ns < 0 ? 0 : expiry_ns;
    expiry.tv_sec = static_cast<time_t>(from_boot / 1'000'000'000);
    expiry.tv_nsec = static_cast<long>(from_boot % 1'000'000'000);
    limit = &expiry;
  }
  const int saved = errno;
  const long result = ::syscall(SYS_futex, bare(word), FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected, limit, nullptr,
                                FUTEX_BITSET_MATCH_ANY);
  const int error = result == 0 ? 0 : errno;
  errno = saved;
  switch (error) {
    case 0:
    case EINTR:
      return futex_result::woken;
    case EAGAIN:
      return futex_result::changed;
    case ETIMEDOUT:
      return futex_result::expired;
    default:
      fatal("futex wait refused by the kernel");
  }
}

int futex_wake(std::atomic<std::uint32_t>& word, int count) noexcept {
  const int saved = errno;
  const long woken = ::syscall(SYS_futex, bare(word), FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, nullptr, nullptr, 0);
  errno = saved;
  // EFAULT: the waiter has gone on and unmapped the word meanwhile. Nobody is left to wake.
  return woken < 0 ? 0 : static_cast<int>(woken);
}

}  // namespace lagom::os
