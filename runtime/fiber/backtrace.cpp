// SPDX-License-Identifier: BSL-1.0
#include "backtrace.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "fiber.hpp"
#include "os/memory.hpp"

// The fiber may wake up and end at any moment, and its stack go back to the system. So nothing on it is touched directly:
// its upper part is copied with the system's help, and the copy counts only if the fiber is still in the same wait afterwards.
namespace lagom {
inline namespace v0 {
namespace detail {

namespace {

constexpr std::size_t copied_at_most = 64 * 1024;

struct moment {
  block_state state;
  std::int64_t since;
  bool on_stack;
  friend bool operator==(const moment&, const moment&) = default;
};

moment look(const fiber_block& f) noexcept {
  // acquire: the stack that it has left is complete; pairs with the release that ends a switch.
  const bool on_stack = f.on_stack.load(std::memory_order_acquire);
  return {f.state.load(std::memory_order_acquire), f.state_since.load(std::memory_order_acquire), on_stack};  // as above
}

struct copied_stack {
  std::uintptr_t low = 0;
  std::vector<std::byte> bytes;

  bool read(std::uintptr_t address, std::uintptr_t& value) const noexcept {
    if (address < low || address - low > bytes.size() || bytes.size() - (address - low) < sizeof value) return false;
    std::memcpy(&value, bytes.data() + (address - low), sizeof value);
    return true;
  }
};

// Through the system too: the fiber's worker may write them meanwhile.
bool copy_stack(const fiber_block& f, copied_stack& copy) {
  void* stack_pointer = nullptr;
  void* top = nullptr;
  if (!os::copy_if_mapped(&stack_pointer, &f.machine.stack_pointer, sizeof stack_pointer)) return false;
  if (!os::copy_if_mapped(&top, &f.memory, sizeof top)) return false;
  const auto from = reinterpret_cast<std::uintptr_t>(stack_pointer), to = reinterpret_cast<std::uintptr_t>(top);
  if (from == 0 || from >= to || to - from > stack_size_max) return false;
  copy.low = from;
  copy.bytes.resize(std::min<std::size_t>(to - from, copied_at_most));
  return os::copy_if_mapped(copy.bytes.data(), stack_pointer, copy.bytes.size());
}

}  // namespace

std::vector<const void*> trace_suspended(const fiber_block& f) {
  std::vector<const void*> frames;
  const moment before = look(f);
  const bool is_suspended = before.state == block_state::parked || before.state == block_state::runnable;
  const suspended_layout suspended = layout_of_suspended();
  copied_stack copy;
  if (!is_suspended || before.on_stack || suspended.size == 0 || !copy_stack(f, copy) || look(f) != before) return frames;
  std::uintptr_t pc = 0, fp = 0;
  if (!copy.read(copy.low + suspended.pc, pc) || !copy.read(copy.low + suspended.fp, fp)) return frames;
  frames.push_back(reinterpret_cast<const void*>(pc));
  // fp is the address of the caller's fp, and the return address is above it. Callers are further up; the last one has none.
  for (std::uintptr_t above = 0; frames.size() < frames_max; fp = above) {
    if (!copy.read(fp, above) || !copy.read(fp + sizeof pc, pc) || pc == 0) break;
    frames.push_back(reinterpret_cast<const void*>(pc));
    if (above <= fp) break;
  }
  return frames;
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
