// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <lagom/detail/spin_lock.hpp>

namespace lagom {
inline namespace v0 {
namespace detail {

inline constexpr std::size_t stack_size_min = 16 * 1024;          // a signal frame with AVX-512 is 3.5 KiB
inline constexpr std::size_t stack_size_default = 256 * 1024;     // address space; only touched pages cost
inline constexpr std::size_t stack_size_max = std::size_t{1} << 30;
/// Free stacks a pool keeps as they are; what is above goes back to the system but for its top page, which costs 1.5 us a
/// stack and as much again when it is touched next. An idle runtime gives all of it back (monitor).
inline constexpr std::size_t warm_stacks_max = 16384;

struct stack_slab;

/// A stack describes itself at its own top: the page that a fiber touches anyway.
struct stack {
  stack* next;          // of the free list it is on
  std::byte* low;       // lowest usable byte; the guard ends here
  stack_slab* slab;
  std::size_t size;     // whole pages: the key of the pool
  bool is_warm;         // its pages are kept as they are
  std::byte* top() noexcept { return reinterpret_cast<std::byte*>(this); }
};

/// Stacks of one runtime: carved out of slabs, reused last in first out. Tops are coloured: stacks at equal page offsets
/// would fight for the same cache sets (measured: 8.3 → 4.6 ns per switch among 1,024 fibers).
class stack_pool {
 public:
  stack_pool() = default;
  ~stack_pool();
  stack_pool(const stack_pool&) = delete;
  stack_pool& operator=(const stack_pool&) = delete;

  /// Throws std::system_error that names the limit (vm.max_map_count, memory) when the system refuses. Any thread.
  stack* acquire(std::size_t size);
  /// Takes back a stack nobody runs on. Beyond a number of them, all but the top page goes back to the system. Any thread.
  void release(stack* s) noexcept;
  /// Gives the memory of free stacks back to the system but for their top pages.
  void cool() noexcept;
  /// Gives slabs without a stack in use back to the system.
  void trim() noexcept;

 private:
  struct size_class {
    std::size_t size;
    stack* free;
  };
  size_class& class_of(std::size_t size);
  void add_slab(size_class& c);

  spin_lock lock_;               // never held over a system call of unknown length but when growing
  std::vector<size_class> classes_;
  std::vector<stack_slab*> slabs_;
  std::size_t warm_ = 0;
};

/// Is the address in the guard of one of our stacks? Gives the stack's usable bounds. Async-signal-safe. O(slabs).
bool find_guard(const void* address, std::byte** low, std::byte** high) noexcept;

}  // namespace detail
}  // namespace v0
}  // namespace lagom
