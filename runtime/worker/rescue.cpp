// SPDX-License-Identifier: BSL-1.0
#include <array>
#include <span>
#include <sstream>
#include <string>

#include "os/clock.hpp"
#include "os/memory.hpp"
#include "os/stack_trace.hpp"
#include "os/symbols.hpp"
#include "runtime_core.hpp"
#include "worker.hpp"

// What happens to a worker's belongings while one fiber keeps it: a call into somebody else's library, a page fault, a long
// loop; and when the worker is not wanted any more (staff.cpp).
//
// Fibers move, the worker does not. The OS thread is inside the rude fiber's code, on that fiber's stack, and owns what is
// marked as the worker's own in worker.hpp: nobody touches that. Everything others need is reachable without it:
//
//   runnable fibers   under the queue lock, which is never held while a fiber's own code runs; the inbox is part of that
//   timers            timer_queue has a lock of its own; the monitor fires what is due
//   descriptors       the monitor polls the worker's poller and passes on a notification it meets there
//
// Invariant: a worker's thread, inside a fiber's code, holds no lock of ours, so whatever the fiber does, the three above can
// be served by any thread. What is woken in its place goes to a worker that is fit (runtime_core::select).
// Who may run nowhere else (affinity, pinned, non_migratable) waits; so do the rude fiber's own later wake-ups.
//
// Rejected: handing the worker to another thread, as Go hands on a P. There system calls are marked; here rude code enters
// the runtime anywhere, without a mark, and every entry would have to ask, with a fence, whether the worker is still ours.
namespace lagom {
inline namespace v0 {
namespace detail {

unsigned worker::evacuate() noexcept {
  std::array<fiber_block*, evacuation_batch> loot;
  unsigned total = 0;
  for (unsigned taken = evacuation_batch; taken == evacuation_batch; total += taken) {
    taken = 0;
    const std::int64_t now = os::monotonic_ns();
    {
      spin_guard hold(queue_lock_);
      empty_inbox(now);
      while (taken < evacuation_batch) {
        scheduler::entity* e = queue_.steal_candidate(
            [&](const scheduler::entity& candidate) {
              const auto& f = static_cast<const fiber_block&>(candidate);
              // acquire: pairs with settle(); the context of a fiber that has just left may not be complete.
              return f.pin_count == 0 && !f.on_stack.load(std::memory_order_acquire) && core.has_a_better_place(f, *this);
            },
            queue_.queued());
        if (!e) break;
        depart(block_of(*e));
        queue_.dequeue(*e, scheduler::leaving::migrated, now);
        loot[taken++] = &block_of(*e);
      }
      publish_waiting();
    }
    for (fiber_block* f : std::span(loot).first(taken)) {
      f->arrival = scheduler::joining::migrated;
      add_to(f->migrations, 1);
      core.dispatch(*f);
    }
  }
  return total;
}

void worker::poll_from_outside() noexcept {
  std::array<os::poll_event, 64> events;
  const int n = poller_.look(events);
  if (n > 0) core.descriptors.dispatch(std::span<os::poll_event>(events.data(), static_cast<std::size_t>(n)));
}

void runtime_core::report_stuck(const worker& w, std::int64_t held_ns) {
  if (!options.log) return;
  fiber_block* f = w.running();
  if (!f) return;
  std::ostringstream text;
  std::array<void*, 48> frames;
  std::size_t depth = 0;
  {
    spin_guard hold(f->end_lock);  // the block may be on its way to the next fiber
    if (f->core.load(std::memory_order_relaxed) != this) return;  // guarded by the lock
    text << "lagom: fiber " << f->serial << " '" << (f->attrs ? f->attrs->name : std::string()) << "' has held worker " << w.index << " for "
         << held_ns / 1'000'000 << " ms without giving way; others go on elsewhere. It is at:";
  }
  stack* memory = f->memory.load(std::memory_order_relaxed);  // gone, and perhaps unmapped, if the fiber has ended meanwhile
  stack bounds{};
  if (memory && os::copy_if_mapped(&bounds, memory, sizeof bounds)) {
    depth = os::stack_of_thread(w.thread_id(), bounds.low, memory->top(), frames);
  }
  log(text.str());
  if (depth == 0) log("lagom:   (its stack could not be read)");
  for (const void* at : std::span<void* const>(frames).first(depth)) log("lagom:   " + os::describe_code(at));
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
