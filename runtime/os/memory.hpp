// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

namespace lagom::os {

// All addresses and sizes here are multiples of page_size().

// Address space, readable and writable, zero, backed on first touch, never by huge pages (one touched stack would
// cost 2 MiB). nullptr and errno on failure.
[[nodiscard]] void* reserve(std::size_t size) noexcept;

// Gives all of it back, guards included. Asserts that the range was ours.
void release(void* address, std::size_t size) noexcept;

enum class guard_kind {
  lightweight,  // MADV_GUARD_INSTALL (Linux 6.13): lives in the page tables, does not split the mapping
  mprotect,     // splits the mapping: two more of vm.max_map_count's maps per guard
  failed,       // guard_result::error says why; ENOMEM from mprotect nearly always means vm.max_map_count
};

struct guard_result {
  guard_kind kind = guard_kind::failed;
  int error = 0;  // errno, if failed
};

// Makes the range fault on any access. Its contents are lost. A touch is a SIGSEGV with either si_code: tell by
// address. Survives discard() and fork().
guard_result install_guard(void* address, std::size_t size) noexcept;

// Many guards at equal distances in one mapping: at first, first + stride, …; one system call per few hundred where
// the kernel can (twice as fast). The result is the weakest of all; after `failed`, some may be installed.
guard_result install_guards(void* first, std::size_t stride, std::size_t guard_size, std::size_t count) noexcept;

// Makes a guarded range readable and writable again (zero).
void remove_guard(void* address, std::size_t size, guard_kind kind) noexcept;

// What install_guard will use on ordinary mappings; probed once.
[[nodiscard]] guard_kind preferred_guard() noexcept;

// For tests and for kernels whose guards are not wanted: from now on mprotect only.
void force_mprotect_guards(bool force) noexcept;

// Gives the pages back, keeps the addresses: they read as zero again. Guards stay. False (errno) if refused, as for
// locked memory: the contents are then unchanged.
bool discard(void* address, std::size_t size) noexcept;

// How much of [low, high) is in memory, counted in whole pages from the lowest such page up to `high`. 0: none, or the range is not
// wholly mapped. Pages that were swapped out are not seen. O(pages), one system call per 512.
[[nodiscard]] std::size_t resident_down_from(const std::byte* high, const std::byte* low) noexcept;

// Copies memory that may be gone, guarded, or written meanwhile: false if any of it cannot be read, or if the system
// refuses (process_vm_readv, which seccomp filters may forbid). Any address and size. Async-signal-safe.
bool copy_if_mapped(void* to, const void* from, std::size_t size) noexcept;

}  // namespace lagom::os
