// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <lagom/detail/channel_core.hpp>
#include <lagom/detail/wait_queue.hpp>

namespace lagom {
inline namespace v0 {

/// A bounded queue of T between fibers and plain threads in any mixture; any number on either side.
///
/// Items are received in the order in which they were accepted, each exactly once. A capacity of 0 is a rendezvous:
/// send waits until a receiver has taken the item. A sender that meets a waiting receiver hands the item straight to
/// it.
///
/// T may be move-only. Its move constructor and the destructor of what was moved from run under the channel's lock:
/// they must not wait or use the channel. (A T whose move may throw is kept on the heap instead; it must be copyable
/// then.)
///
/// Status forms return channel_status:
///   ok       sent, or received
///   closed   send: the channel is closed, the item stays with the caller. receive: closed, and no items are left
///   full, empty   only try_send, try_receive
///   timeout  only the forms with a time; the item stays with the caller
///   stopped  a stop of the calling fiber was requested while it waited; the item stays with the caller
/// An item is moved from only if the result is ok. Zero or negative durations try once and return at once; what can be
/// done without waiting is done even after a stop request.
///
/// Preemption: a send or receive that has woken somebody may give the worker away after all is done; any form but the
/// try ones may wait. Cost: one lock and one move, inline, when nobody has to wait or be woken.
template <class T>
class channel : private detail::channel_core {
  static_assert(std::is_object_v<T> && !std::is_array_v<T> && !std::is_const_v<T>);
  static_assert(std::is_nothrow_move_constructible_v<T> || std::is_copy_constructible_v<T>,
                "lagom::channel: a type that can only be moved must not throw when it is moved");

  // What lies in the ring.
  static constexpr bool plain = std::is_trivially_copyable_v<T>;
  using item = detail::channel_item<T>;
  static constexpr bool boxed = !std::is_same_v<item, T>;
  using items = detail::channel_items<item>;

 public:
  using value_type = T;

  /// Room for `capacity` items is allocated once, here. Throws std::bad_alloc, or std::length_error above 2^32 - 1.
  explicit channel(std::size_t capacity) : channel_core(capacity, sizeof(item), alignof(item)) {}

  /// REQUIRES: nobody uses the channel. Items left in it are destroyed.
  ~channel() {
    if constexpr (!std::is_trivially_destructible_v<item>) {
      while (count_ != 0) {
        std::destroy_at(items::at(ring_, head_));
        drop_head();
      }
    }
    release_ring(alignof(item));
  }

  /// Waits for room. ok, closed, stopped.
  channel_status send(T&& value) { return send_within(value, detail::never); }
  /// Never waits. ok, closed, full.
  channel_status try_send(T&& value) { return send_within(value, detail::no_wait); }
  /// Waits for room at most d. ok, closed, timeout, stopped.
  template <class Rep, class Period>
  channel_status send_for(T&& value, const std::chrono::duration<Rep, Period>& d) {
    return send_within(value, detail::expiry_after(d));
  }
  /// Waits for room until tp. ok, closed, timeout, stopped.
  template <class Clock, class Duration>
  channel_status send_until(T&& value, const std::chrono::time_point<Clock, Duration>& tp) {
    return send_within(value, detail::expiry_at(tp));
  }

  /// The same for a copy of the value.
  channel_status send(const T& value) { return send_copy(value, detail::never); }
  channel_status try_send(const T& value) { return send_copy(value, detail::no_wait); }
  template <class Rep, class Period>
  channel_status send_for(const T& value, const std::chrono::duration<Rep, Period>& d) {
    return send_copy(value, detail::expiry_after(d));
  }
  template <class Clock, class Duration>
  channel_status send_until(const T& value, const std::chrono::time_point<Clock, Duration>& tp) {
    return send_copy(value, detail::expiry_at(tp));
  }

  /// Waits for an item and move-assigns it to out, which is unchanged unless the result is ok. ok, closed, stopped.
  channel_status receive(T& out) { return receive_within(out, detail::never); }
  /// Never waits. ok, closed, empty.
  channel_status try_receive(T& out) { return receive_within(out, detail::no_wait); }
  /// Waits for an item at most d. ok, closed, timeout, stopped.
  template <class Rep, class Period>
  channel_status receive_for(T& out, const std::chrono::duration<Rep, Period>& d) {
    return receive_within(out, detail::expiry_after(d));
  }
  /// Waits for an item until tp. ok, closed, timeout, stopped.
  template <class Clock, class Duration>
  channel_status receive_until(T& out, const std::chrono::time_point<Clock, Duration>& tp) {
    return receive_within(out, detail::expiry_at(tp));
  }

  /// Waits for an item. nullopt: closed, and no items are left. Throws std::system_error(errc::stopped) when a stop of
  /// the calling fiber is requested while it waits.
  std::optional<T> receive() {
    detail::landing<item> place;
    const channel_status status = take_within(place.slot(), detail::never);
    if (status == channel_status::stopped) throw_stopped();
    if (status != channel_status::ok) return std::nullopt;
    return std::optional<T>(place.template take<T>());
  }

  /// No more items are accepted from now on; items in the channel can still be received. Wakes all who wait: receivers,
  /// and senders, whose items are not accepted. Closing twice does nothing. O(waiters). Never gives the worker away.
  void close() noexcept { channel_core::close(); }
  bool is_closed() const noexcept { return channel_core::is_closed(); }

  std::size_t capacity() const noexcept { return capacity_; }
  /// Items in the channel at this moment; those of waiting senders are not counted.
  std::size_t size() const noexcept { return channel_core::size(); }

  /// for (T& item : channel): receive() until closed and drained. Throws as receive() does.
  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = T*;
    using reference = T&;

    iterator() = default;
    explicit iterator(channel& from) : from_(&from), item_(from.receive()) {}
    T& operator*() const noexcept { return *item_; }
    T* operator->() const noexcept { return &*item_; }
    iterator& operator++() {
      // Destroyed first and made anew, so that T need not be assignable.
      item_.reset();
      if (std::optional<T> next = from_->receive()) item_.emplace(std::move(*next));
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const iterator& i, std::default_sentinel_t) noexcept { return !i.item_.has_value(); }

   private:
    channel* from_ = nullptr;
    mutable std::optional<T> item_;
  };
  iterator begin() { return iterator(*this); }
  std::default_sentinel_t end() const noexcept { return {}; }

 private:
  friend struct detail::channel_access;  // select

  channel_status send_within(T& value, std::int64_t expiry) {
    if constexpr (boxed) {
      auto box = std::make_unique<T>(std::move_if_noexcept(value));
      return put_within(box, expiry);
    } else {
      return put_within(value, expiry);
    }
  }

  channel_status send_copy(const T& value, std::int64_t expiry) {
    if constexpr (plain) {
      return put_within(const_cast<T&>(value), expiry);  // only read: moving a plain item is copying it
    } else {
      T copy(value);
      return send_within(copy, expiry);
    }
  }

  channel_status receive_within(T& out, std::int64_t expiry) {
    if constexpr (plain) {
      return take_within(std::addressof(out), expiry);
    } else {
      // Not into out under the lock: the assignment ends out's old value, which may do anything.
      detail::landing<item> place;
      const channel_status status = take_within(place.slot(), expiry);
      if (status == channel_status::ok) out = place.template take<T>();
      return status;
    }
  }

  channel_status put_within(item& value, std::int64_t expiry) {
    detail::ticket woken;
    guard_.lock();
    const channel_status status = put(value, woken);
    if (status == channel_status::full && expiry != detail::no_wait)
      return wait_to_send_and_unlock(std::addressof(value), expiry);
    guard_.unlock();
    if (woken.who) wake_and_give_way(woken);
    return status;
  }

  channel_status take_within(void* slot, std::int64_t expiry) {
    detail::ticket woken;
    guard_.lock();
    const channel_status status = take(slot, woken);
    if (status == channel_status::empty && expiry != detail::no_wait) return wait_to_receive_and_unlock(slot, expiry);
    guard_.unlock();
    if (woken.who) wake_and_give_way(woken);
    return status;
  }

  /// One try to send. REQUIRES: guard_ held. ok, closed, full. A receiver that got the item is to be woken.
  channel_status put(item& value, detail::ticket& woken) noexcept {
    if (closed_) return channel_status::closed;
    if (detail::waiter* receiver = receivers_.pop()) {
      items::move_to(receiver->slot, value);
      woken = receiver->who;
      return channel_status::ok;
    }
    if (count_ == capacity_) return channel_status::full;
    items::move_to(items::at(ring_, tail_), value);
    push_tail();
    return channel_status::ok;
  }

  /// One try to receive into raw memory. REQUIRES: guard_ held. ok, closed, empty. A sender whose item has found its
  /// place is to be woken.
  channel_status take(void* slot, detail::ticket& woken) noexcept {
    if (count_ != 0) {
      items::relocate_to(slot, *items::at(ring_, head_));
      drop_head();
      if (detail::waiter* sender = senders_.pop()) {
        items::move_to(items::at(ring_, tail_), *static_cast<item*>(sender->slot));
        push_tail();
        woken = sender->who;
      }
      return channel_status::ok;
    }
    if (detail::waiter* sender = senders_.pop()) {  // capacity 0
      items::move_to(slot, *static_cast<item*>(sender->slot));
      woken = sender->who;
      return channel_status::ok;
    }
    return closed_ ? channel_status::closed : channel_status::empty;
  }
};

namespace detail {
struct nothing {};
}  // namespace detail

/// A channel of signals without content. As channel<T>; receive() returns the status (it is also true in a condition if
/// an item was received), and send() has no argument.
template <>
class channel<void> {
 public:
  using value_type = void;

  /// As channel_status; converts to true only for ok, so that `while (channel.receive())` reads as with an optional.
  class received {
   public:
    constexpr received(channel_status status) noexcept : status_(status) {}
    constexpr operator channel_status() const noexcept { return status_; }
    constexpr explicit operator bool() const noexcept { return status_ == channel_status::ok; }
    friend constexpr bool operator==(received a, channel_status b) noexcept { return a.status_ == b; }

   private:
    channel_status status_;
  };

  /// One byte for each unit of capacity is allocated.
  explicit channel(std::size_t capacity) : signals_(capacity) {}

  channel_status send() { return signals_.send(detail::nothing{}); }
  channel_status try_send() { return signals_.try_send(detail::nothing{}); }
  template <class Rep, class Period>
  channel_status send_for(const std::chrono::duration<Rep, Period>& d) {
    return signals_.send_for(detail::nothing{}, d);
  }
  template <class Clock, class Duration>
  channel_status send_until(const std::chrono::time_point<Clock, Duration>& tp) {
    return signals_.send_until(detail::nothing{}, tp);
  }

  received receive() {
    detail::nothing none;
    return signals_.receive(none);
  }
  received try_receive() {
    detail::nothing none;
    return signals_.try_receive(none);
  }
  template <class Rep, class Period>
  received receive_for(const std::chrono::duration<Rep, Period>& d) {
    detail::nothing none;
    return signals_.receive_for(none, d);
  }
  template <class Clock, class Duration>
  received receive_until(const std::chrono::time_point<Clock, Duration>& tp) {
    detail::nothing none;
    return signals_.receive_until(none, tp);
  }

  void close() noexcept { signals_.close(); }
  bool is_closed() const noexcept { return signals_.is_closed(); }
  std::size_t capacity() const noexcept { return signals_.capacity(); }
  std::size_t size() const noexcept { return signals_.size(); }

 private:
  friend struct detail::channel_access;

  channel<detail::nothing> signals_;
};

}  // namespace v0
}  // namespace lagom
