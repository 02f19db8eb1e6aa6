// SPDX-License-Identifier: BSL-1.0
#include "fiber.hpp"

#include <new>
#include <utility>

#include "os/assert.hpp"

namespace lagom {
inline namespace v0 {

const char* to_string(fiber_state s) noexcept {
  switch (s) {
    case fiber_state::created: return "created";
    case fiber_state::runnable: return "runnable";
    case fiber_state::running: return "running";
    case fiber_state::parked: return "parked";
    case fiber_state::exited: return "exited";
  }
  return "?";
}

namespace detail {

namespace {

constexpr std::size_t slab_blocks = 64;

// Blocks are never freed, so the list only grows.
struct block_slab {
  fiber_block blocks[slab_blocks];
  block_slab* next = nullptr;
};

std::atomic<block_slab*> all_slabs{nullptr};
spin_lock free_lock;
fiber_block* free_blocks = nullptr;

}  // namespace

fiber_state visible(block_state s) noexcept {
  switch (s) {
    case block_state::free:
    case block_state::exited: return fiber_state::exited;
    case block_state::created: return fiber_state::created;
    case block_state::runnable: return fiber_state::runnable;
    case block_state::running: return fiber_state::running;
    case block_state::parked: return fiber_state::parked;
  }
  return fiber_state::exited;
}

fiber_block* acquire_block() {
  {
    spin_guard hold(free_lock);
    if (fiber_block* f = free_blocks) {
      free_blocks = f->next;
      f->next = nullptr;
      return f;
    }
  }
  auto* slab = new block_slab;
  slab->next = all_slabs.load(std::memory_order_relaxed);  // corrected by the loop
  // release: readers of the list see constructed blocks; pairs with for_each_block.
  while (!all_slabs.compare_exchange_weak(slab->next, slab, std::memory_order_release, std::memory_order_relaxed)) {
  }
  spin_guard hold(free_lock);
  for (std::size_t i = slab_blocks; i-- > 1;) {
    slab->blocks[i].next = free_blocks;
    free_blocks = &slab->blocks[i];
  }
  return &slab->blocks[0];
}

void release_block(fiber_block* f) noexcept {
  spin_guard hold(free_lock);
  f->next = free_blocks;
  free_blocks = f;
}

void forget_free_blocks() noexcept {
  free_lock.unlock();
  free_blocks = nullptr;
}

slab_layout layout_of_slabs() noexcept {
  static_assert(sizeof all_slabs == sizeof(void*));
  return {&all_slabs, slab_blocks, 0, sizeof(fiber_block) * slab_blocks};
}

void for_each_block(void (*visit)(fiber_block&, void*), void* argument) {
  // acquire: pairs with acquire_block.
  for (block_slab* s = all_slabs.load(std::memory_order_acquire); s; s = s->next) {
    for (fiber_block& f : s->blocks) visit(f, argument);
  }
}

namespace {

// Nobody is to look for an ended fiber: its runtime may be gone before a late notice is read.
void forget_change(fiber_block& f) noexcept {
  spin_guard hold(f.update.lock);
  f.rare.store(0, std::memory_order_relaxed);  // guarded by the lock
}

}  // namespace

void end_fiber(fiber_block& f) noexcept {
  constexpr unsigned batch = 16;
  bool more = true;
  while (more) {
    ticket joiners[batch];
    unsigned n = 0;
    {
      spin_guard hold(f.end_lock);
      f.ended = true;
      if (f.rare.load(std::memory_order_relaxed) != 0) forget_change(f);  // set under the lock
      while (n < batch && !f.joiners.empty()) joiners[n++] = f.joiners.pop()->who;
      more = !f.joiners.empty();
    }
    for (unsigned i = 0; i < n; ++i) unpark(joiners[i]);
  }
  drop_reference(f);
}

// Back to what a fiber without a past is; the word's epoch and the serial stay.
void reset_block(fiber_block& f) noexcept {
  static_cast<scheduler::entity&>(f) = scheduler::entity{};
  f.home.store(nullptr, std::memory_order_relaxed);        // nobody else has the block
  f.stop_flag.store(false, std::memory_order_relaxed);     // nobody else has the block
  f.reason.store(wait_reason::none, std::memory_order_relaxed);  // for dump()
  for (auto* counter : {&f.switches_voluntary, &f.switches_involuntary, &f.migrations}) {
    counter->store(0, std::memory_order_relaxed);  // statistics
  }
  for (auto* time : {&f.wait_time, &f.wait_max, &f.cpu_time}) time->store(0, std::memory_order_relaxed);  // statistics
  f.stack_used.store(0, std::memory_order_relaxed);  // statistics
  f.locks = {};
  f.pin_count = 0;
  f.usual_stint = 0;
  f.usual_usage = 0;
  f.recent_worker = scheduler::no_worker;
  f.stay_count = f.no_stop_count = 0;
  f.run = nullptr;
  f.task = nullptr;
  f.failure = nullptr;
  f.relay.reset();  // waits for its end if somebody's request is just on the way: not under the lock
  spin_guard hold(f.end_lock);
  f.ended = false;
  f.is_detached.store(false, std::memory_order_relaxed);  // nobody else has the block
  f.stop_source.reset();
  if (!f.attrs) return;  // what follows comes with attributes only
  f.attrs.reset();
  f.allowed.reset();
  f.is_pinned = false;
  f.clamp = {};
  f.rare.store(0, std::memory_order_relaxed);  // nobody else has the block
}

std::stop_source stop_source_of(fiber_block& f) {
  bool requested = false;
  std::stop_source source(std::nostopstate);
  {
    std::stop_source fresh;  // allocates outside the lock
    spin_guard hold(f.end_lock);
    if (!f.stop_source) f.stop_source = std::move(fresh);
    source = *f.stop_source;
    requested = f.stop_flag.load(std::memory_order_relaxed);  // written under the lock
  }
  if (requested) source.request_stop();
  return source;
}

void stop_relay::operator()() const noexcept { request_stop(*fiber, core); }

std::stop_source relaying_source_of(fiber_block& f) {
  std::stop_source source = stop_source_of(f);
  // relaxed: set before the handle was.
  const stop_relay relay{&f, f.core.load(std::memory_order_relaxed)};
  auto fresh = std::make_unique<std::stop_callback<stop_relay>>(source.get_token(), relay);
  spin_guard hold(f.end_lock);
  // A stop that came meanwhile has used the fresh one: nothing is left to relay.
  if (!f.relay && !f.stop_flag.load(std::memory_order_relaxed)) f.relay.swap(fresh);  // written under the lock
  return source;
}

const char* to_string(wait_reason reason) noexcept {
  switch (reason) {
    case wait_reason::none: return "";
    case wait_reason::sleep: return "sleep";
    case wait_reason::join: return "join";
    case wait_reason::mutex: return "mutex";
    case wait_reason::condition_variable: return "condition_variable";
    case wait_reason::semaphore: return "semaphore";
    case wait_reason::event: return "event";
    case wait_reason::wait_group: return "wait_group";
    case wait_reason::channel_send: return "channel send";
    case wait_reason::channel_receive: return "channel receive";
    case wait_reason::select: return "select";
    case wait_reason::readable: return "descriptor readable";
    case wait_reason::writable: return "descriptor writable";
    case wait_reason::shared_mutex: return "shared_mutex";
    case wait_reason::latch: return "latch";
    case wait_reason::barrier: return "barrier";
    case wait_reason::call_once: return "call_once";
    case wait_reason::future: return "future";
    case wait_reason::blocking_call: return "blocking call";
    case wait_reason::scope: return "scope";
    case wait_reason::runtime_run: return "runtime::run";
    case wait_reason::signal: return "signal";
    case wait_reason::count_: break;
  }
  return "?";
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
