// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <system_error>
#include <type_traits>
#include <utility>

#include <lagom/channel.hpp>
#include <lagom/detail/export.hpp>
#include <lagom/detail/wait_queue.hpp>

namespace lagom {
inline namespace v0 {
namespace detail {

/// What select may touch of a channel.
struct channel_access {
  template <class T>
  static channel_core& core(channel<T>& ch) noexcept {
    return ch;
  }
  static channel<nothing>& signals(channel<void>& ch) noexcept { return ch.signals_; }

  static spin_lock& guard(channel_core& core) noexcept { return core.guard_; }
  static wait_queue& senders(channel_core& core) noexcept { return core.senders_; }
  static wait_queue& receivers(channel_core& core) noexcept { return core.receivers_; }

  template <class T>
  static channel_status put(channel<T>& ch, channel_item<T>& value, ticket& woken) noexcept {
    return ch.put(value, woken);
  }
  template <class T>
  static channel_status take(channel<T>& ch, void* slot, ticket& woken) noexcept {
    return ch.take(slot, woken);
  }
};

/// One case of a select, on the stack of the caller.
class select_case {
 public:
  enum class kind : std::uint8_t { channel, timeout, readable, writable, stop, otherwise };

  explicit select_case(kind k) noexcept : what(k) {}
  select_case(const select_case&) = delete;
  select_case& operator=(const select_case&) = delete;

  const kind what;
  channel_core* core = nullptr;  // channel
  wait_queue* queue = nullptr;   // channel: where the waiter goes
  waiter node;                   // channel
  std::int64_t expiry = 0;       // timeout
  int fd = -1;                   // readable, writable
  std::error_code error;         // readable, writable: how the wait ended
  std::stop_token token;         // stop
  bool is_ready = false;         // those three: before anything was waited for

  /// channel: one try. REQUIRES: the channel's lock.
  virtual channel_status try_now(ticket&) noexcept { return channel_status::empty; }
  /// Calls the handler. The case has been chosen, all others are withdrawn.
  virtual void handle(channel_status status) = 0;

 protected:
  ~select_case() = default;
};

/// The one that was chosen, as an index, and how a channel's operation ended.
struct select_choice {
  std::size_t index;
  channel_status status;
};
/// `by_address` is room for as many pointers. Throws std::system_error: errc::stopped; no_runtime for descriptors on a
/// plain thread.
LAGOM_EXPORT select_choice choose_case(std::span<select_case*> cases, std::span<select_case*> by_address);

// A handler written for one type of argument may be asked whether it takes another one as well. Asking a generic lambda
// would compile its body.
template <class F>
concept has_one_signature = requires {
  &F::operator();
}
|| std::is_pointer_v<F>;
template <class F, class A>
constexpr bool also_takes() {
  if constexpr (has_one_signature<F>) {
    return std::is_invocable_v<F&, A>;
  } else {
    return false;
  }
}

template <class F>
void call_with_status(F& function, channel_status status) {
  if constexpr (also_takes<F, channel_status>()) {
    std::invoke(function, status);
  } else if (status == channel_status::ok) {
    std::invoke(function);
  }
}

template <class T, class F>
class receive_case final : public select_case {
 public:
  receive_case(channel<T>& ch, F f) : select_case(kind::channel), channel_(ch), function_(std::move(f)) {
    core = &channel_access::core(ch);
    queue = &channel_access::receivers(*core);
    node.slot = place_.slot();
  }
  channel_status try_now(ticket& woken) noexcept override {
    return channel_access::take(channel_, place_.slot(), woken);
  }
  void handle(channel_status status) override {
    if (status == channel_status::ok) {
      std::invoke(function_, place_.template take<T>());
    } else if constexpr (also_takes<F, std::optional<T>>()) {
      std::invoke(function_, std::optional<T>());
    }
  }

 private:
  channel<T>& channel_;
  F function_;
  landing<channel_item<T>> place_;
};

template <class F>
class receive_case<void, F> final : public select_case {
 public:
  receive_case(channel<void>& ch, F f)
      : select_case(kind::channel), channel_(channel_access::signals(ch)), function_(std::move(f)) {
    core = &channel_access::core(channel_);
    queue = &channel_access::receivers(*core);
    node.slot = &place_;
  }
  channel_status try_now(ticket& woken) noexcept override { return channel_access::take(channel_, &place_, woken); }
  void handle(channel_status status) override { call_with_status(function_, status); }

 private:
  channel<nothing>& channel_;
  F function_;
  nothing place_;
};

/// `Held` is T& (the caller's object, moved from if this case is chosen) or T (a copy).
template <class T, class Held, class F>
class send_case final : public select_case {
  using item = channel_item<T>;
  static constexpr bool boxed = !std::is_same_v<item, T>;

 public:
  template <class V>
  send_case(channel<T>& ch, V&& value, F f)
      : select_case(kind::channel), channel_(ch), value_(std::forward<V>(value)), function_(std::move(f)) {
    core = &channel_access::core(ch);
    queue = &channel_access::senders(*core);
    if constexpr (boxed) box_ = std::make_unique<T>(std::move_if_noexcept(value_));
    node.slot = std::addressof(content());
  }
  channel_status try_now(ticket& woken) noexcept override { return channel_access::put(channel_, content(), woken); }
  void handle(channel_status status) override { call_with_status(function_, status); }

 private:
  item& content() noexcept {
    if constexpr (boxed) {
      return box_;
    } else {
      return value_;
    }
  }

  channel<T>& channel_;
  Held value_;
  F function_;
  std::conditional_t<boxed, std::unique_ptr<T>, nothing> box_;
};

template <class F>
class send_case<void, void, F> final : public select_case {
 public:
  send_case(channel<void>& ch, F f)
      : select_case(kind::channel), channel_(channel_access::signals(ch)), function_(std::move(f)) {
    core = &channel_access::core(channel_);
    queue = &channel_access::senders(*core);
    node.slot = &place_;
  }
  channel_status try_now(ticket& woken) noexcept override { return channel_access::put(channel_, place_, woken); }
  void handle(channel_status status) override { call_with_status(function_, status); }

 private:
  channel<nothing>& channel_;
  F function_;
  nothing place_;
};

template <class F>
class simple_case final : public select_case {
 public:
  simple_case(std::int64_t when, F f) : select_case(kind::timeout), function_(std::move(f)) { expiry = when; }
  simple_case(std::stop_token t, F f) : select_case(kind::stop), function_(std::move(f)) { token = std::move(t); }
  simple_case(kind k, int descriptor, F f) : select_case(k), function_(std::move(f)) { fd = descriptor; }

  void handle(channel_status) override {
    if constexpr (also_takes<F, std::error_code>()) {
      std::invoke(function_, error);
    } else {
      std::invoke(function_);
    }
  }

 private:
  F function_;
};

}  // namespace detail

/// Waits until one of several things can be done, and does just that one. Fibers and plain threads.
///
///   lagom::select(lagom::on_receive(requests, [&](request r) { serve(r); }),
///                 lagom::on_send(results, std::move(result), [] {}),
///                 lagom::on_timeout(5ms, [] { report(); }));
///
/// Returns the index of the case that was chosen, in the order of the arguments, after its handler has returned. The
/// handler runs when all other cases are withdrawn: it may use the same channels, wait, select again, or throw.
///
/// Fair: of the cases that are ready the choice begins at a random one. A case on a closed channel is ready (see
/// on_receive and on_send). Without a ready case, `otherwise` is chosen if there is one. Throws
/// std::system_error(errc::stopped) when a stop of the calling fiber is requested while it waits; nothing has been done
/// then.
///
/// O(n log n) in the cases; each channel is locked twice. The channels' locks are held together, in the order of their
/// addresses, while the cases are looked at and entered.
template <class... Case>
requires(sizeof...(Case) > 0 && (std::is_base_of_v<detail::select_case, Case> && ...)) std::size_t
    select(Case&&... cases) {
  std::array<detail::select_case*, sizeof...(Case)> all{&cases...};
  std::array<detail::select_case*, sizeof...(Case)> by_address;
  const detail::select_choice chosen = detail::choose_case(all, by_address);
  all[chosen.index]->handle(chosen.status);
  return chosen.index;
}

/// f(item) when an item was received. When the channel is closed and drained: f(std::optional<T>()) if f takes an
/// optional; else f is not called. channel<void>: f(), or f(channel_status), which is also called with closed.
template <class T, class F>
detail::receive_case<T, F> on_receive(channel<T>& ch, F f) {
  return {ch, std::move(f)};
}

/// f() when the value was sent, or f(channel_status), which is also called with closed. The value is moved from only if
/// it was sent.
template <class T, class F>
detail::send_case<T, T&, F> on_send(channel<T>& ch, std::type_identity_t<T>&& value, F f) {
  return {ch, value, std::move(f)};
}
/// The same for a copy of the value, made at once.
template <class T, class F>
detail::send_case<T, T, F> on_send(channel<T>& ch, const std::type_identity_t<T>& value, F f) {
  return {ch, value, std::move(f)};
}
template <class F>
detail::send_case<void, void, F> on_send(channel<void>& ch, F f) {
  return {ch, std::move(f)};
}

/// f() when d (any unit; zero or less: at once) has passed and nothing else was ready.
template <class Rep, class Period, class F>
detail::simple_case<F> on_timeout(const std::chrono::duration<Rep, Period>& d, F f) {
  return {detail::expiry_after(d), std::move(f)};
}
/// The same with a point in time.
template <class Clock, class Duration, class F>
detail::simple_case<F> on_timeout(const std::chrono::time_point<Clock, Duration>& tp, F f) {
  return {detail::expiry_at(tp), std::move(f)};
}

/// f(), or f(std::error_code), when the descriptor can be read (written) without waiting, has reached its end or cannot
/// be waited for; see io::wait_readable. Fibers only. A select that has to wait costs a fiber for each such case.
template <class F>
detail::simple_case<F> on_readable(int fd, F f) {
  return {detail::select_case::kind::readable, fd, std::move(f)};
}
template <class F>
detail::simple_case<F> on_writable(int fd, F f) {
  return {detail::select_case::kind::writable, fd, std::move(f)};
}

/// f() when a stop is requested of the token.
template <class F>
detail::simple_case<F> on_stop(std::stop_token token, F f) {
  return {std::move(token), std::move(f)};
}

/// f() when no other case is ready: the select does not wait.
template <class F>
detail::simple_case<F> otherwise(F f) {
  return {detail::select_case::kind::otherwise, -1, std::move(f)};
}

}  // namespace v0
}  // namespace lagom
