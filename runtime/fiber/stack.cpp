// SPDX-License-Identifier: BSL-1.0
#include "stack.hpp"

#include <atomic>
#include <cerrno>
#include <new>
#include <string>
#include <system_error>
#include <utility>

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
  stack_slab* doomed = nullptr;  // the next one that is about to be unmapped
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

enum class refused : std::uint8_t { mapping, guard };

// Which limit it was the system does not say.
[[noreturn]] void refuse(int error, refused what) {
  std::string text = "lagom: no memory for another fiber stack: ";
  text += what == refused::guard ? "the guard page was refused" : "mmap failed";
  if (error == ENOMEM) {
    text += what == refused::guard ? " (probably vm.max_map_count" : " (limits: RLIMIT_AS, vm.overcommit_memory, vm.max_map_count";
    if (const auto limit = os::max_map_count()) text += " = " + std::to_string(*limit);
    text += what == refused::guard ? ": each guard page takes two mappings on this kernel; raise the limit with sysctl)" : ")";
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
  return classes_.emplace_back(size_class{size, nullptr, nullptr});
}

void stack_pool::add_slab(size_class& c) {
  const std::size_t page = os::page_size();
  const std::size_t guard = (stack_guard_size + page - 1) / page * page;
  const std::size_t stride = c.size + guard;  // it comes on top of what was asked for
  const std::size_t count = stride >= slab_bytes ? 1 : slab_bytes / stride;
  slabs_.reserve(slabs_.size() + 1);
  stack_slab* s = take_record();
  auto* base = static_cast<std::byte*>(os::reserve(stride * count));
  if (!base) {
    const int error = errno;
    s->taken.store(false, std::memory_order_release);  // pairs with take_record
    refuse(error, refused::mapping);
  }
  const os::guard_result guards = os::install_guards(base, stride, guard, count);
  if (guards.kind == os::guard_kind::failed) {
    os::release(base, stride * count);
    s->taken.store(false, std::memory_order_release);  // pairs with take_record
    refuse(guards.error, refused::guard);
  }
  s->guard = guard;
  s->in_use = 0;
  s->stride.store(stride, std::memory_order_relaxed);  // published by the store of base
  s->count.store(static_cast<std::uint32_t>(count), std::memory_order_relaxed);  // published by the store of base
  s->base.store(base, std::memory_order_release);  // pairs with find_guard
  slabs_.push_back(s);
  for (std::size_t i = count; i-- > 0;) {
    std::byte* low = base + i * stride + guard;
    std::byte* high = base + (i + 1) * stride;
    announce_stack(low, high);
    const std::size_t offset = (i % colours) * colour_step;
    auto* at = high - offset - sizeof(stack);
    at -= reinterpret_cast<std::uintptr_t>(at) % 64;
    c.cold = new (at) stack{c.cold, low, s, c.size};
  }
}

stack* adopt_stack(std::span<std::byte> memory) noexcept {
  constexpr std::uintptr_t line = 64;
  const auto low = (reinterpret_cast<std::uintptr_t>(memory.data()) + 15) / 16 * 16;
  const auto high = reinterpret_cast<std::uintptr_t>(memory.data() + memory.size());
  const auto at = (high - sizeof(stack)) / line * line;
  return new (reinterpret_cast<void*>(at)) stack{nullptr, reinterpret_cast<std::byte*>(low), nullptr, high - low};
}

stack* stack_pool::acquire(std::size_t size) {
  spin_guard hold(lock_);
  size_class& c = class_of(size);
  if (!c.warm && !c.cold) add_slab(c);
  stack*& list = c.warm ? c.warm : c.cold;
  if (c.warm) count_warm(-1);
  stack* s = list;
  list = s->next;
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

void stack_pool::release(stack* s, pages wanted) noexcept {
  if (!s->slab) return;
  // A hint: one more or less is kept.
  const bool is_warm = wanted == pages::kept && warm_.load(std::memory_order_relaxed) < warm_stacks_max;
  if (!is_warm) discard_below_top(*s);
  spin_guard hold(lock_);
  size_class& c = class_of(s->size);  // exists: it was acquired from there
  stack*& list = is_warm ? c.warm : c.cold;
  if (is_warm) count_warm(1);
  s->next = list;
  list = s;
  --s->slab->in_use;
}

// A few at a time: whoever wants a stack meanwhile finds the lock free, and the rest of them.
void stack_pool::cool(std::size_t index) noexcept {
  constexpr std::size_t batch = 32;
  stack* taken[batch];
  // Not until there are none: others may bring new ones as fast as that.
  for (std::size_t rounds = warm_.load(std::memory_order_relaxed) / batch + 1; rounds > 0; --rounds) {  // a hint
    std::size_t n = 0;
    spin_guard alone(cooling_);
    {
      spin_guard hold(lock_);
      size_class& c = classes_[index];
      for (; n < batch && c.warm; ++n) {
        taken[n] = c.warm;
        c.warm = taken[n]->next;
        ++taken[n]->slab->in_use;
      }
      count_warm(-static_cast<std::ptrdiff_t>(n));
    }
    for (std::size_t i = 0; i < n; ++i) discard_below_top(*taken[i]);
    spin_guard hold(lock_);
    size_class& c = classes_[index];
    for (std::size_t i = 0; i < n; ++i) {
      taken[i]->next = c.cold;
      c.cold = taken[i];
      --taken[i]->slab->in_use;
    }
  }
}

void stack_pool::cool() noexcept {
  for (std::size_t i = 0;; ++i) {
    {
      spin_guard hold(lock_);
      if (i >= classes_.size()) return;
    }
    cool(i);
  }
}

// Of slabs that nobody uses. Returns how many.
std::ptrdiff_t stack_pool::drop_unused(stack*& list) noexcept {
  std::ptrdiff_t n = 0;
  for (stack** link = &list; *link;) {
    if ((*link)->slab->in_use == 0) {
      *link = (*link)->next;
      ++n;
    } else {
      link = &(*link)->next;
    }
  }
  return n;
}

void stack_pool::trim() noexcept {
  trims_.fetch_add(1, std::memory_order_relaxed);  // a request, publishes nothing
  collect();
}

void stack_pool::collect() noexcept {
  cool();
  stack_slab* doomed = nullptr;
  {
    spin_guard alone(cooling_);  // or the stacks of somebody's batch would keep their slabs
    spin_guard hold(lock_);
    for (size_class& c : classes_) {
      count_warm(-drop_unused(c.warm));
      drop_unused(c.cold);
    }
    std::erase_if(slabs_, [&](stack_slab* s) {
      if (s->in_use != 0) return false;
      s->doomed = std::exchange(doomed, s);
      return true;
    });
  }
  while (doomed) give_back(*std::exchange(doomed, doomed->doomed));
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
