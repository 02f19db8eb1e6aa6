// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <lagom/detail/spin_lock.hpp>

namespace lagom {
inline namespace v0 {
namespace detail {

inline constexpr std::size_t stack_size_min = 16 * 1024;          // a signal frame with AVX-512 is 3.5 KiB
inline constexpr std::size_t stack_size_default = 256 * 1024;     // address space; only touched pages cost
inline constexpr std::size_t stack_size_max = std::size_t{1} << 30;
/// Below each stack: a frame that is smaller cannot step over it. Costs addresses only.
inline constexpr std::size_t stack_guard_size = 16 * 1024;
/// Free stacks a pool keeps as they are; what is above goes back to the system but for its top page, which costs 1.5 us a
/// stack and as much again when it is touched next. An idle runtime gives all of it back (monitor).
inline constexpr std::size_t warm_stacks_max = 16384;

struct stack_slab;

/// A stack describes itself at its own top: the page that a fiber touches anyway.
struct stack {
  stack* next;          // of the free list it is on
  std::byte* low;       // lowest usable byte; the guard ends here
  stack_slab* slab;     // null: its memory is the user's
  std::size_t size;     // whole pages: the key of the pool
  std::byte* top() noexcept { return reinterpret_cast<std::byte*>(this); }
};

/// Describes memory of a user as a stack, at the memory's own top. Nothing of it is ours: there is no guard, and whoever gives it
/// back to a pool gives back nothing.
stack* adopt_stack(std::span<std::byte> memory) noexcept;

/// What becomes of a free stack's pages: kept for the next fiber, or given back to the system but for the top one.
enum class pages : std::uint8_t { kept, discarded };

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
  /// Takes back a stack nobody runs on. Beyond a number of them, pages are discarded anyhow. Any thread.
  void release(stack* s, pages wanted = pages::kept) noexcept;
  /// Gives the memory of free stacks back to the system but for their top pages.
  void cool() noexcept;
  /// Gives slabs without a stack in use back to the system, and all that cool() does. Tells the workers to bring what they keep.
  void trim() noexcept;
  /// As trim(), for a worker that has brought its stacks.
  void collect() noexcept;
  /// Changes when the workers should bring the free stacks that they keep.
  std::uint32_t trims() const noexcept { return trims_.load(std::memory_order_relaxed); }  // a request, publishes nothing

 private:
  struct size_class {
    std::size_t size;
    stack* warm;   // with the pages of their last fibers; taken first
    stack* cold;
  };
  size_class& class_of(std::size_t size);
  void add_slab(size_class& c);
  void cool(std::size_t index) noexcept;
  static std::ptrdiff_t drop_unused(stack*& list) noexcept;
  void count_warm(std::ptrdiff_t n) noexcept {
    warm_.store(warm_.load(std::memory_order_relaxed) + static_cast<std::size_t>(n), std::memory_order_relaxed);  // under the lock
  }

  spin_lock cooling_;            // held over the system calls of one batch; taken before lock_
  spin_lock lock_;               // never held over a system call but when growing
  std::vector<size_class> classes_;
  std::vector<stack_slab*> slabs_;
  std::atomic<std::size_t> warm_{0};  // written under the lock
  std::atomic<std::uint32_t> trims_{0};
};

/// Is the address in the guard of one of our stacks? Gives the stack's usable bounds. Async-signal-safe. O(slabs).
bool find_guard(const void* address, std::byte** low, std::byte** high) noexcept;

}  // namespace detail
}  // namespace v0
}  // namespace lagom
