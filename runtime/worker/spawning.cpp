// SPDX-License-Identifier: BSL-1.0
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "os/assert.hpp"
#include "os/clock.hpp"
#include "runtime_core.hpp"
#include "worker.hpp"

// A fiber's beginning and end of life: where its memory comes from and goes to.
namespace lagom {
inline namespace v0 {
namespace detail {

namespace {

std::atomic<std::uint64_t> next_serial_block{0};
constexpr std::uint64_t serial_block = 1024;

void refuse(const char* field, const std::string& was, const char* right) {
  throw std::invalid_argument(std::string("lagom: attributes::") + field + " is " + was + "; " + right);
}

}  // namespace

std::uint64_t worker::new_serial() noexcept {
  if (serials_left_ == 0) {
    next_serial_ = next_serial_block.fetch_add(serial_block, std::memory_order_relaxed) + 1;  // unique, unordered
    serials_left_ = serial_block;
  }
  --serials_left_;
  return next_serial_++;
}

fiber_block* worker::take_block() {
  fiber_block* f = blocks_;
  if (!f) return acquire_block();
  blocks_ = f->next;
  f->next = nullptr;
  --block_count_;
  return f;
}

void worker::put_block(fiber_block& f) noexcept {
  if (block_count_ >= worker_cache_max) {
    for (unsigned i = 0; i < worker_cache_max / 2; ++i) release_block(take_block());
  }
  f.next = blocks_;
  blocks_ = &f;
  ++block_count_;
}

stack* worker::take_stack(std::size_t size) {
  if (size != core.default_stack || !stacks_) return core.stacks.acquire(size);
  stack* s = stacks_;
  stacks_ = s->next;
  --stack_count_;
  return s;
}

void worker::give_up_stacks() noexcept {
  // Until nobody has asked meanwhile: a trim() that finds our stacks in the pool needs no help, one that came before does.
  do {
    const std::uint32_t asked = core.stacks.trims();
    const bool is_trim = asked != seen_trims_;
    seen_trims_ = asked;
    while (stack* s = stacks_) {
      stacks_ = s->next;
      core.stacks.release(s, is_trim ? pages::discarded : pages::kept);
    }
    stack_count_ = 0;
    if (is_trim) core.stacks.collect();
  } while (core.stacks.trims() != seen_trims_);
}

void worker::put_stack(stack* s) noexcept {
  if (!s->slab) return;  // its user's
  if (core.options.measure_stacks) return core.stacks.release(s, pages::discarded);
  if (s->size != core.default_stack) return core.stacks.release(s);
  if (stack_count_ >= worker_cache_max) {
    for (unsigned i = 0; i < worker_cache_max / 2; ++i) {
      stack* given = stacks_;
      stacks_ = given->next;
      --stack_count_;
      core.stacks.release(given);
    }
  }
  s->next = stacks_;
  stacks_ = s;
  ++stack_count_;
  if (core.stacks.trims() != seen_trims_) [[unlikely]] give_up_stacks();
}

prepared runtime_core::prepare(const attributes* attrs, std::size_t size, std::size_t align, ownership who) {
  check_process("spawn");
  if (stopping.load(std::memory_order_relaxed)) {  // looked at again in commit()
    throw std::system_error(errc::stopped, "lagom: spawn after a stop was requested");
  }
  if (attrs) check_attributes(*attrs);
  worker* here = current_worker();
  if (here && &here->core != this) here = nullptr;
  const bool is_users = attrs && !attrs->stack.empty();
  if (is_users && size + align > 1024 && attrs->stack.size() < stack_size_min + size + align) {
    refuse("stack", std::to_string(attrs->stack.size()) + " bytes", "the callable and 16 KiB must fit");
  }
  std::size_t stack_size = default_stack;
  // What is asked for is what the body can use: a large callable gets room of its own.
  if ((attrs && attrs->stack_size) || size + align > 1024) {
    stack_size = whole_stack(attrs && attrs->stack_size ? attrs->stack_size : options.stack_size, size + align);
  }

  fiber_block* f = here ? here->take_block() : acquire_block();
  LAGOM_ASSERT(f->state.load(std::memory_order_relaxed) == block_state::free);  // nobody else has it
  stack* s = nullptr;
  try {
    reset_block(*f);
    if (attrs) apply_attributes(*f, *attrs);
    s = is_users ? adopt_stack(attrs->stack) : here ? here->take_stack(stack_size) : stacks.acquire(stack_size);
    f->memory.store(s, std::memory_order_relaxed);  // nobody else has it
  } catch (...) {
    reset_block(*f);
    release_block(f);
    throw;
  }
  std::byte* top = s->top() - size;
  top -= reinterpret_cast<std::uintptr_t>(top) % std::max<std::size_t>(align, 16);
  f->task = top;
  f->is_detached.store(who == ownership::detached, std::memory_order_relaxed);  // nobody else has it
  f->references.store(who == ownership::detached ? 1 : 2, std::memory_order_relaxed);  // nobody else has it
  // Nothing is known of it: half of what there is, as in Linux; only where CPUs differ in speed does it matter.
  set_usage(*f, scheduler::utilization(here ? here->now() : os::monotonic_ns(), 0, seats.map().is_hybrid ? scheduler::capacity_scale / 2 : 0));
  f->machine.owner = f;
  f->forks = forks;
  make_context(f->machine, s->low, top, &worker::enter);
  transition(*f, block_state::free, block_state::created);
  if (here) {
    f->serial = here->new_serial();
    here->count_spawn();
  } else {
    f->serial = next_serial_block.fetch_add(serial_block, std::memory_order_relaxed) + 1;  // unique, unordered
    spawned_outside.fetch_add(1, std::memory_order_release);                               // pairs with live()
  }
  return {f, top};
}

void runtime_core::commit(fiber_block& f) noexcept {
  // seq_cst: visible before the look at `stopping`; pairs with request_stop().
  f.core.store(this, std::memory_order_seq_cst);
  if (stopping.load(std::memory_order_seq_cst)) detail::request_stop(f, this);  // f has not run: it is still ours
  transition(f, block_state::created, block_state::runnable);
  worker* here = current_worker();
  if (here && &here->core == this && here->running() && (!f.allowed || f.allowed[here->index]) && !here->in_reserve()) {
    // The spawner's stint so far must count: else a chain of fibers that spawn their successor and end would join, each
    // time, where the first one began, and never fall behind anybody.
    here->read_clock();
    here->enqueue_spawned(f);
    return;
  }
  f.arrival = scheduler::joining::spawned;
  dispatch(f);
}

void runtime_core::abandon(fiber_block& f) noexcept {
  discard_context(f.machine);
  stacks.release(f.memory.exchange(nullptr, std::memory_order_relaxed));  // ours
  transition(f, block_state::created, block_state::exited);
  transition(f, block_state::exited, block_state::free);
  reset_block(f);
  release_block(&f);
  abandoned.fetch_add(1, std::memory_order_seq_cst);  // before the look at who waits; pairs with live()
  fiber_ended();
}

void drop_reference(fiber_block& f) noexcept {
  // acq_rel: the last one sees what the others did with the fiber.
  if (f.references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  {
    // Under the lock: whoever walks the blocks to stop this runtime's fibers must not meet the next user of the block.
    spin_guard hold(f.end_lock);
    f.core.store(nullptr, std::memory_order_relaxed);  // guarded by the lock
  }
  transition(f, block_state::exited, block_state::free);
  f.failure = nullptr;
  if (worker* here = current_worker()) {
    here->put_block(f);
  } else {
    release_block(&f);
  }
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
