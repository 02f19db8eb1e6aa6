// SPDX-License-Identifier: BSL-1.0
#include <lagom/channel.hpp>

#include <algorithm>
#include <stdexcept>

#include "wait.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

namespace {

std::uint32_t checked_capacity(std::size_t capacity, std::size_t item_size) {
  constexpr std::size_t index_max = std::numeric_limits<std::uint32_t>::max();
  if (capacity > index_max || capacity > std::numeric_limits<std::ptrdiff_t>::max() / item_size) {
    throw std::length_error("lagom::channel: a capacity is at most 2^32 - 1 items");
  }
  return static_cast<std::uint32_t>(capacity);
}

// At least a cache line, so that small items of different channels share none.
std::align_val_t ring_alignment(std::size_t item_alignment) {
  return std::align_val_t{std::max<std::size_t>(item_alignment, 64)};
}

std::byte* allocate_ring(std::size_t capacity, std::size_t item_size, std::size_t item_alignment) {
  if (capacity == 0) return nullptr;
  return static_cast<std::byte*>(::operator new(capacity* item_size, ring_alignment(item_alignment)));
}

channel_status outcome(wake how, const waiter& w) noexcept {
  if (how == wake::notified) return w.flag ? channel_status::closed : channel_status::ok;
  return how == wake::stopped ? channel_status::stopped : channel_status::timeout;
}

}  // namespace

channel_core::channel_core(std::size_t capacity, std::size_t item_size, std::size_t item_alignment)
    : capacity_(checked_capacity(capacity, item_size)), ring_(allocate_ring(capacity, item_size, item_alignment)) {}

void channel_core::release_ring(std::size_t item_alignment) noexcept {
  ::operator delete(ring_, ring_alignment(item_alignment));
}

void channel_core::close() noexcept {
  wake_batch batch;
  guard_.lock();
  closed_ = true;
  for (wait_queue* queue : {&receivers_, &senders_}) {
    while (waiter* w = queue->pop()) {
      w->flag = true;
      batch.add(w->who);
    }
  }
  guard_.unlock();
}

channel_status channel_core::wait_to_send_and_unlock(void* item, std::int64_t expiry) noexcept {
  waiter w;
  w.slot = item;
  return outcome(wait_and_unlock(guard_, senders_, w, wait_reason::channel_send, expiry), w);
}

channel_status channel_core::wait_to_receive_and_unlock(void* slot, std::int64_t expiry) noexcept {
  waiter w;
  w.slot = slot;
  return outcome(wait_and_unlock(guard_, receivers_, w, wait_reason::channel_receive, expiry), w);
}

void channel_core::wake_and_give_way(ticket who) noexcept {
  unpark(who);
  preemption_point();
}

void channel_core::throw_stopped() { detail::throw_stopped(); }

}  // namespace detail
}  // namespace v0
}  // namespace lagom
