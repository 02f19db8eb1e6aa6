// SPDX-License-Identifier: BSL-1.0
#include "stack.hpp"

#include <atomic>
#include <cerrno>
#include <new>
#include <string>
#include <system_error>

#include "context.hpp"
#include "os/assert.hpp"
#include "os/limits.hpp"
#include "os/memory.hpp"
#include "os/thread.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

// Slab records are never freed: a fault handler may be reading them. `base` is null while the record is unused.
struct stack_slab {
  std::atomic<std::byte*> base{nullptr};
  std::atomic<std::size_t> stride{0};
  std::atomic<std::uint32_t> count{0};
  std::uint32_t in_use = 0;      // stacks handed out; guarded by the pool's lock
  std::size_t guard = 0;
  stack_slab* next = nullptr;    // of all records; set once before it is published
  std::atomic<bool> taken{true};
};

namespace {

constexpr std::size_t slab_bytes = std::size_t{16} << 20;
constexpr std::size_t colours = 64, colour_step = 64;

std::atomic<stack_slab*> all_slabs{nullptr};

stack_slab* take_record() {
  // acquire: pairs with the release that published the record.
  for (stack_slab* s = all_slabs.load(std::memory_order_acquire); s; s = s->next) {
    bool expected = false;
    // acq_rel: the former owner's last writes come first.
    if (s->taken.compare_exchange_strong(expected, true, std::memory_order_acq_rel)) return s;
  }
  auto* fresh = new stack_slab;
  fresh->next = all_slabs.load(std::memory_order_relaxed);  // corrected by the loop
  // release: readers of the list see `next`.
  while (!all_slabs.compare_exchange_weak(fresh->next, fresh, std::memory_order_release, std::memory_order_relaxed)) {
  }
  return fresh;
}

void give_back(stack_slab& s) noexcept {
  std::byte* base = s.base.load(std::memory_order_relaxed);  // only the pool that owns the record writes it
  const std::size_t stride = s.stride.load(std::memory_order_relaxed);
  const std::uint32_t count = s.count.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < count; ++i) forget_stack(base + i * stride + s.guard, base + (i + 1) * stride);
  s.base.store(nullptr, std::memory_order_release);  // pairs with find_guard: it must not name a stack that is gone
  os::release(base, stride * count);
  s.taken.store(false, std::memory_order_release);  // pairs with take_record
}

[[noreturn]] void refuse(int error, const char* what, bool guards) {
  std::string text = std::string("lagom: no memory for another fiber stack: ") + what;
  if (guards && error == ENOMEM) {
    text += " (probably vm.max_map_count";
    if (const auto limit = os::max_map_count()) text += " = " + std::to_string(*limit);
    text += ": each guard page takes two mappings on this kernel; raise the limit with sysctl)";
  }
  throw std::system_error(error, std::generic_category(), text);
}

}  // namespace

stack_pool::~stack_pool() {
  for (stack_slab* s : slabs_) give_back(*s);
}

stack_pool::size_class& stack_pool::class_of(std::size_t size) {
  for (size_class& c : classes_) {
    if (c.size == size) return c;
  }
  return classes_.emplace_back(size_class{size, nullptr});
}

void stack_pool::add_slab(size_class& c) {
  const std::size_t page = os::page_size();
  const std::size_t stride = c.size + page;  // the guard comes on top of what was asked for
  const std::size_t count = stride >= slab_bytes ? 1 : slab_bytes / stride;
  slabs_.reserve(slabs_.size() + 1);
  stack_slab* s = take_record();
  auto* base = static_cast<std::byte*>(os::reserve(stride * count));
  if (!base) {
    const int error = errno;
    s->taken.store(false, std::memory_order_release);  // pairs with take_record
    refuse(error, "mmap failed", false);
  }
  const os::guard_result guards = os::install_guards(base, stride, page, count);
  if (guards.kind == os::guard_kind::failed) {
    os::release(base, stride * count);
    s->taken.store(false, std::memory_order_release);  // pairs with take_record
    refuse(guards.error, "the guard page was refused", true);
  }
  s->guard = page;
  s->in_use = 0;
  s->stride.store(stride, std::memory_order_relaxed);  // published by the store of base
  s->count.store(static_cast<std::uint32_t>(count), std::memory_order_relaxed);  // published by the store of base
  s->base.store(base, std::memory_order_release);  // pairs with find_guard
  slabs_.push_back(s);
  for (std::size_t i = count; i-- > 0;) {
    std::byte* low = base + i * stride + page;
    std::byte* high = base + (i + 1) * stride;
    announce_stack(low, high);
    const std::size_t offset = (i % colours) * colour_step;
    auto* at = high - offset - sizeof(stack);
    at -= reinterpret_cast<std::uintptr_t>(at) % 64;
    c.free = new (at) stack{c.free, low, s, c.size, false};
  }
}

stack* stack_pool::acquire(std::size_t size) {
  spin_guard hold(lock_);
  size_class& c = class_of(size);
  if (!c.free) add_slab(c);
  stack* s = c.free;
  c.free = s->next;
  if (s->is_warm) --warm_;
  s->is_warm = false;
  ++s->slab->in_use;
  return s;
}

namespace {

// The top page holds the stack's description, and will be touched first.
void discard_below_top(stack& s) noexcept {
  const std::size_t page = os::page_size();
  auto* keep = reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(&s) / page * page);
  if (keep > s.low) os::discard(s.low, static_cast<std::size_t>(keep - s.low));
}

}  // namespace

void stack_pool::release(stack* s) noexcept {
  bool is_warm = false;
  {
    spin_guard hold(lock_);
    is_warm = warm_ < warm_stacks_max;
    if (is_warm) ++warm_;
  }
  if (!is_warm) discard_below_top(*s);
  spin_guard hold(lock_);
  s->is_warm = is_warm;
  for (size_class& c : classes_) {
    if (c.size != s->size) continue;
    s->next = c.free;
    c.free = s;
  }
  --s->slab->in_use;
}

void stack_pool::cool() noexcept {
  spin_guard hold(lock_);
  if (warm_ == 0) return;
  for (size_class& c : classes_) {
    for (stack* s = c.free; s; s = s->next) {
      if (s->is_warm) discard_below_top(*s);
      s->is_warm = false;
    }
  }
  warm_ = 0;
}

void stack_pool::trim() noexcept {
  cool();
  spin_guard hold(lock_);
  for (size_class& c : classes_) {
    stack** link = &c.free;
    while (*link) {
      if ((*link)->slab->in_use == 0) {
        *link = (*link)->next;
      } else {
        link = &(*link)->next;
      }
    }
  }
  std::erase_if(slabs_, [](stack_slab* s) {
    if (s->in_use != 0) return false;
    give_back(*s);
    return true;
  });
}

bool find_guard(const void* address, std::byte** low, std::byte** high) noexcept {
  const auto* at = static_cast<const std::byte*>(address);
  // acquire: pairs with take_record and add_slab.
  for (stack_slab* s = all_slabs.load(std::memory_order_acquire); s; s = s->next) {
    std::byte* base = s->base.load(std::memory_order_acquire);  // pairs with add_slab
    if (!base || at < base) continue;
    const std::size_t stride = s->stride.load(std::memory_order_relaxed);  // published by base
    const std::size_t count = s->count.load(std::memory_order_relaxed);    // published by base
    const std::size_t offset = static_cast<std::size_t>(at - base);
    if (offset >= stride * count || offset % stride >= s->guard) continue;
    *low = base + offset / stride * stride + s->guard;
    *high = base + (offset / stride + 1) * stride;
    return true;
  }
  return false;
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
