// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "event.hpp"

namespace lagom::trace {

struct recording {
  std::vector<event> events;  // oldest first
  std::uint64_t lost = 0;     // older ones, overwritten since start()
};

// What one worker did last: a ring that overwrites its oldest events. Off, record() is one load and one branch that
// is always predicted; on, six moves. One thread records; any thread may start, stop (one at a time) and look.
//
// Invariant: the events [begun - capacity, done) are whole. A slot is overwritten only after `begun` says so, so a
// reader who copies first and asks `begun` afterwards knows which of its copies to throw away.
class recorder {
 public:
  recorder() noexcept = default;
  recorder(const recorder&) = delete;
  recorder& operator=(const recorder&) = delete;
  ~recorder();

  // From the next event on. capacity is rounded up to a power of two (at least 16; 32 bytes each) and stays what the
  // first start made it: the ring may be in use. What was recorded before is forgotten. Throws std::bad_alloc.
  void start(std::size_t capacity);

  // An event that is being recorded now may still get in.
  void stop() noexcept;

  [[nodiscard]] bool is_on() const noexcept { return active_.load(std::memory_order_relaxed) != nullptr; }

  // The writer's thread only.
  void record(event_kind kind, std::int64_t time_ns, std::uint64_t fiber, std::uint64_t argument) noexcept {
    // Acquire: pairs with the release in start(), which has filled in the ring.
    ring* const active = active_.load(std::memory_order_acquire);
    if (active != nullptr) [[unlikely]] {
      push(*active, kind, time_ns, fiber, argument);
    }
  }

  // A copy of what the ring holds. O(capacity), allocates.
  [[nodiscard]] recording copy() const;

 private:
  struct slot {
    std::array<std::atomic<std::uint64_t>, 4> words{};
  };

  struct ring {
    explicit ring(std::size_t capacity) : slots(capacity) {}

    std::vector<slot> slots;
    std::atomic<std::uint64_t> begun{0};
    std::atomic<std::uint64_t> done{0};
    std::atomic<std::uint64_t> first{0};  // the number of the first event since start()
  };

  static void push(ring& into, event_kind kind, std::int64_t time_ns, std::uint64_t fiber,
                   std::uint64_t argument) noexcept;

  std::unique_ptr<ring> ring_;
  std::atomic<ring*> active_{nullptr};     // null: off
  std::atomic<const ring*> readable_{nullptr};  // the ring once there is one
};

}  // namespace lagom::trace
