// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <lagom/detail/export.hpp>
#include <lagom/detail/spin_lock.hpp>
#include <lagom/detail/wait_queue.hpp>

namespace lagom {
inline namespace v0 {

/// How an operation on a channel ended; see channel.
enum class channel_status { ok, closed, empty, full, timeout, stopped };

namespace detail {

struct channel_access;  // for select

inline constexpr std::int64_t no_wait = std::numeric_limits<std::int64_t>::min();

/// The part of a channel that does not depend on what it carries: the ring's indices and the waiters.
///
/// Invariants, whenever guard_ is free: count_ <= capacity_; somebody waits to receive only if count_ is 0; somebody
/// waits to send only if count_ is capacity_; after closed_ nobody waits. (Members of selects that have been won
/// elsewhere and are still linked do not count; pop() drops them.)
///
/// One cache line: an operation touches it, and the item, and nothing else.
class alignas(64) channel_core {
 public:
  channel_core(const channel_core&) = delete;
  channel_core& operator=(const channel_core&) = delete;

 protected:
  friend struct channel_access;

  LAGOM_EXPORT channel_core(std::size_t capacity, std::size_t item_size, std::size_t item_alignment);
  ~channel_core() = default;
  LAGOM_EXPORT void release_ring(std::size_t item_alignment) noexcept;  // last

  LAGOM_EXPORT void close() noexcept;
  bool is_closed() const noexcept {
    spin_guard hold(guard_);
    return closed_;
  }
  std::size_t size() const noexcept {
    spin_guard hold(guard_);
    return count_;
  }

  void drop_head() noexcept {
    --count_;
    if (++head_ == capacity_) head_ = 0;
  }
  void push_tail() noexcept {
    ++count_;
    if (++tail_ == capacity_) tail_ = 0;
  }

  // REQUIRES: guard_ held; the channel is full, or empty, and not closed. The item is where the sender has it.
  LAGOM_EXPORT channel_status wait_to_send_and_unlock(void* item, std::int64_t expiry) noexcept
      LAGOM_THREAD_SAFETY(release_capability(guard_));
  LAGOM_EXPORT channel_status wait_to_receive_and_unlock(void* slot, std::int64_t expiry) noexcept
      LAGOM_THREAD_SAFETY(release_capability(guard_));

  LAGOM_EXPORT static void wake_and_give_way(ticket who) noexcept;
  [[noreturn]] LAGOM_EXPORT static void throw_stopped();

  mutable spin_lock guard_;
  bool closed_ = false;
  const std::uint32_t capacity_;
  std::uint32_t count_ = 0;
  std::uint32_t head_ = 0;  // next to be received
  std::uint32_t tail_ = 0;  // next free place
  std::byte* const ring_;   // null if the capacity is 0
  wait_queue senders_;
  wait_queue receivers_;
};

/// What lies in the ring for a T: itself, or a box if moving it may throw.
template <class T>
using channel_item = std::conditional_t<std::is_trivially_copyable_v<T> || std::is_nothrow_move_constructible_v<T>, T,
                                        std::unique_ptr<T>>;

/// How items get in and out of raw memory. A trivially copyable item is just bytes.
template <class Item>
struct channel_items {
  static constexpr bool plain = std::is_trivially_copyable_v<Item>;

  static Item* at(std::byte* ring, std::uint32_t index) noexcept {
    return std::launder(reinterpret_cast<Item*>(ring + std::size_t{index} * sizeof(Item)));
  }
  /// Makes the item in raw memory from an object that stays alive.
  static void move_to(void* place, Item& from) noexcept {
    if constexpr (plain) {
      std::memcpy(place, std::addressof(from), sizeof(Item));
    } else {
      ::new (place) Item(std::move(from));
    }
  }
  /// The same, and `from` is raw memory again.
  static void relocate_to(void* place, Item& from) noexcept {
    move_to(place, from);
    if constexpr (!std::is_trivially_destructible_v<Item>) std::destroy_at(std::addressof(from));
  }
};

/// Raw memory in which a received item arrives.
template <class Item>
class landing {
 public:
  void* slot() noexcept { return place_; }

  /// The item as a T, out of the landing. REQUIRES: an item has arrived, once.
  template <class T>
  T take() {
    Item& item = *std::launder(reinterpret_cast<Item*>(place_));
    struct cleanup {
      Item& item;
      ~cleanup() { std::destroy_at(std::addressof(item)); }
    } at_end{item};
    if constexpr (std::is_same_v<T, Item>) {
      return std::move(item);
    } else {
      return std::move(*item);
    }
  }

 private:
  alignas(Item) std::byte place_[sizeof(Item)];
};

}  // namespace detail
}  // namespace v0
}  // namespace lagom
