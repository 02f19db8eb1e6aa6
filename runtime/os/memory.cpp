// SPDX-License-Identifier: BSL-1.0
#include "memory.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>

#include "assert.hpp"
#include "thread.hpp"

namespace lagom::os {
namespace {

// In Linux 6.13's headers, not in ours.
constexpr int madv_guard_install = 102;
constexpr int madv_guard_remove = 103;

enum class support : int { unknown, yes, no };

// Relaxed: the answer is the same whoever asks, and publishes nothing.
std::atomic<support> lightweight{support::unknown};
std::atomic<bool> force_mprotect{false};

bool is_page_multiple(const void* address, std::size_t size) noexcept {
  const std::size_t mask = page_size() - 1;
  return (reinterpret_cast<std::size_t>(address) & mask) == 0 && (size & mask) == 0;
}

support probe() noexcept {
  const std::size_t size = page_size();
  void* const page = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    return support::unknown;
  }
  const int result = ::madvise(page, size, madv_guard_install);
  const int error = errno;
  ::munmap(page, size);
  if (result == 0) {
    return support::yes;
  }
  // EINVAL is also what a locked mapping gets (mlockall): no use remembering anything else.
  return error == EINVAL ? support::no : support::unknown;
}

bool try_lightweight() noexcept {
  if (force_mprotect.load(std::memory_order_relaxed)) {
    return false;
  }
  support known = lightweight.load(std::memory_order_relaxed);
  if (known == support::unknown) {
    known = probe();
    lightweight.store(known, std::memory_order_relaxed);
  }
  return known == support::yes;
}

guard_result protect(void* address, std::size_t size) noexcept {
  // First the pages: an inaccessible page that was touched would stay in memory.
  ::madvise(address, size, MADV_DONTNEED);
  if (::mprotect(address, size, PROT_NONE) == 0) {
    return {guard_kind::mprotect, 0};
  }
  return {guard_kind::failed, errno};
}

// As many guards as one call takes; returns how many were installed from the front. 0: use the plain call.
std::size_t install_batch(std::byte* first, std::size_t stride, std::size_t guard_size, std::size_t count) noexcept {
#if defined(SYS_process_madvise) && defined(SYS_pidfd_open)
  constexpr std::size_t batch = 256;
  std::array<iovec, batch> ranges;
  const std::size_t taken = std::min(count, batch);
  for (std::size_t i = 0; i < taken; ++i) {
    ranges[i] = {first + i * stride, guard_size};
  }
  // Opened each time: one kept open would mean the parent after fork().
  const long self = ::syscall(SYS_pidfd_open, ::getpid(), 0);
  if (self < 0) {
    return 0;
  }
  const long advised = ::syscall(SYS_process_madvise, self, ranges.data(), taken, madv_guard_install, 0);
  ::close(static_cast<int>(self));
  return advised <= 0 ? 0 : static_cast<std::size_t>(advised) / guard_size;
#else
  static_cast<void>(first), static_cast<void>(stride), static_cast<void>(guard_size), static_cast<void>(count);
  return 0;
#endif
}

}  // namespace

void* reserve(std::size_t size) noexcept {
  LAGOM_ASSERT(size != 0 && is_page_multiple(nullptr, size));
  void* const address =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    return nullptr;
  }
  // Fails on kernels built without huge pages: then there is nothing to forbid.
  const int saved = errno;
  ::madvise(address, size, MADV_NOHUGEPAGE);
  errno = saved;
  return address;
}

void release(void* address, std::size_t size) noexcept {
  LAGOM_ASSERT(address != nullptr && is_page_multiple(address, size));
  const int result = ::munmap(address, size);
  // ENOMEM: unmapping the middle of a mapping would need one more than vm.max_map_count. The address space is lost,
  // the memory is not.
  if (result != 0) {
    LAGOM_ASSERT(errno == ENOMEM);
    ::madvise(address, size, MADV_DONTNEED);
  }
}

guard_result install_guard(void* address, std::size_t size) noexcept {
  LAGOM_ASSERT(size != 0 && is_page_multiple(address, size));
  const int saved = errno;
  guard_result result;
  if (try_lightweight() && ::madvise(address, size, madv_guard_install) == 0) {
    result.kind = guard_kind::lightweight;
  } else {
    // Also for locked memory (mlockall), where the kernel has lightweight guards but refuses them.
    result = protect(address, size);
  }
  errno = saved;
  return result;
}

guard_result install_guards(void* first, std::size_t stride, std::size_t guard_size, std::size_t count) noexcept {
  LAGOM_ASSERT(stride >= guard_size && is_page_multiple(first, stride));
  guard_result weakest{guard_kind::lightweight, 0};
  auto* const base = static_cast<std::byte*>(first);
  std::size_t done = 0;
  const int saved = errno;
  while (done < count && try_lightweight()) {
    const std::size_t installed = install_batch(base + done * stride, stride, guard_size, count - done);
    if (installed == 0) {
      break;
    }
    done += installed;
  }
  for (; done < count; ++done) {
    const guard_result result = install_guard(base + done * stride, guard_size);
    if (result.kind == guard_kind::failed) {
      errno = saved;
      return result;
    }
    if (result.kind == guard_kind::mprotect) {
      weakest.kind = guard_kind::mprotect;
    }
  }
  errno = saved;
  return weakest;
}

void remove_guard(void* address, std::size_t size, guard_kind kind) noexcept {
  LAGOM_ASSERT(kind != guard_kind::failed && is_page_multiple(address, size));
  const int saved = errno;
  const int result = kind == guard_kind::lightweight ? ::madvise(address, size, madv_guard_remove)
                                                     : ::mprotect(address, size, PROT_READ | PROT_WRITE);
  LAGOM_ASSERT(result == 0);
  errno = saved;
}

guard_kind preferred_guard() noexcept { return try_lightweight() ? guard_kind::lightweight : guard_kind::mprotect; }

void force_mprotect_guards(bool force) noexcept { force_mprotect.store(force, std::memory_order_relaxed); }

bool discard(void* address, std::size_t size) noexcept {
  LAGOM_ASSERT(is_page_multiple(address, size));
  return ::madvise(address, size, MADV_DONTNEED) == 0;
}

std::size_t resident_down_from(const std::byte* high, const std::byte* low) noexcept {
  const std::size_t page = page_size();
  const int saved = errno;
  std::array<unsigned char, 512> is_resident;  // small: the caller may be on a small stack
  auto at = reinterpret_cast<std::uintptr_t>(low) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(high) + page - 1) / page * page;
  std::size_t found = 0;
  while (found == 0 && at < end) {
    const std::size_t pages = std::min(is_resident.size(), (end - at) / page);
    if (::mincore(reinterpret_cast<void*>(at), pages * page, is_resident.data()) != 0) break;
    const auto first = std::find_if(is_resident.begin(), is_resident.begin() + pages, [](unsigned char c) { return (c & 1) != 0; });
    const auto below = static_cast<std::size_t>(first - is_resident.begin());
    if (below < pages) found = end - (at + below * page);
    at += pages * page;
  }
  errno = saved;
  return found;
}

bool copy_if_mapped(void* to, const void* from, std::size_t size) noexcept {
  const int saved = errno;
  const iovec here{to, size};
  const iovec there{const_cast<void*>(from), size};
  const bool all = ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) == static_cast<ssize_t>(size);
  errno = saved;
  return all;
}

}  // namespace lagom::os
