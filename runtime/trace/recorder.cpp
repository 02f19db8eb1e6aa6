// SPDX-License-Identifier: BSL-1.0
#include "recorder.hpp"

#include <algorithm>
#include <bit>

namespace lagom::trace {

const char* name_of(event_kind kind) noexcept {
  switch (kind) {
    case event_kind::running: return "running";
    case event_kind::parked: return "parked";
    case event_kind::yielded: return "yielded";
    case event_kind::preempted: return "preempted";
    case event_kind::exited: return "exited";
    case event_kind::spawned: return "spawned";
    case event_kind::unparked: return "unparked";
    case event_kind::stolen: return "stolen";
    case event_kind::worker_sleeping: return "worker_sleeping";
    case event_kind::worker_awake: return "worker_awake";
    case event_kind::mark: return "mark";
  }
  return "unknown";
}

recorder::~recorder() = default;

void recorder::start(std::size_t capacity) {
  if (ring_ == nullptr) {
    constexpr std::size_t least = 16;
    ring_ = std::make_unique<ring>(std::bit_ceil(std::max(capacity, least)));
    readable_.store(ring_.get(), std::memory_order_release);  // pairs with the acquire in copy()
  }
  // Acquire: pairs with the release in push(); only events recorded before a stop() are counted out.
  ring_->first.store(ring_->done.load(std::memory_order_acquire), std::memory_order_relaxed);
  active_.store(ring_.get(), std::memory_order_release);  // pairs with the acquire in record()
}

void recorder::stop() noexcept { active_.store(nullptr, std::memory_order_relaxed); }  // publishes nothing

void recorder::push(ring& into, event_kind kind, std::int64_t time_ns, std::uint64_t fiber,
                    std::uint64_t argument) noexcept {
  const std::uint64_t number = into.done.load(std::memory_order_relaxed);  // ours alone to write
  slot& at = into.slots[number & (into.slots.size() - 1)];
  into.begun.store(number + 1, std::memory_order_relaxed);  // ordered by the releases below
  const std::array<std::uint64_t, 4> words{static_cast<std::uint64_t>(time_ns), fiber, argument,
                                           static_cast<std::uint64_t>(kind)};
  for (std::size_t i = 0; i < words.size(); ++i) {
    // Release: pairs with the acquires in copy(). A reader who sees a word of this event also sees `begun`.
    at.words[i].store(words[i], std::memory_order_release);
  }
  into.done.store(number + 1, std::memory_order_release);  // pairs with copy(): the event is whole
}

recording recorder::copy() const {
  recording result;
  const ring* const from = readable_.load(std::memory_order_acquire);  // pairs with start()
  if (from == nullptr) {
    return result;
  }
  const std::uint64_t capacity = from->slots.size();
  const std::uint64_t done = from->done.load(std::memory_order_acquire);  // pairs with push()
  const std::uint64_t first = std::min(from->first.load(std::memory_order_relaxed), done);  // changed by start() only
  const std::uint64_t oldest = std::max(first, done - std::min(done, capacity));
  result.events.reserve(done - oldest);
  for (std::uint64_t number = oldest; number < done; ++number) {
    const slot& at = from->slots[number & (capacity - 1)];
    std::array<std::uint64_t, 4> words{};
    for (std::size_t i = 0; i < words.size(); ++i) {
      words[i] = at.words[i].load(std::memory_order_acquire);  // pairs with push(), and keeps `begun` below after it
    }
    result.events.push_back(
        {static_cast<std::int64_t>(words[0]), words[1], words[2], static_cast<event_kind>(words[3])});
  }
  const std::uint64_t begun = from->begun.load(std::memory_order_relaxed);  // ordered by the acquires above
  const std::uint64_t whole_from = begun - std::min(begun, capacity);
  const std::uint64_t torn = std::min<std::uint64_t>(whole_from - std::min(whole_from, oldest), result.events.size());
  result.events.erase(result.events.begin(), result.events.begin() + static_cast<std::ptrdiff_t>(torn));
  result.lost = oldest + torn - first;
  return result;
}

}  // namespace lagom::trace
