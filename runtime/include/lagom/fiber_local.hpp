// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include <lagom/detail/export.hpp>

namespace lagom {
inline namespace v0 {
namespace detail {

/// Which value is meant: a small index that is used again, and an id that never is.
struct local_key {
  std::uint32_t index;
  std::uint64_t id;
};
LAGOM_EXPORT local_key acquire_local_key();  // throws std::bad_alloc
LAGOM_EXPORT void release_local_key(local_key key) noexcept;

/// One value of one fiber or thread, in the list of its values in the order in which they were made.
struct local_node {
  local_key key{};
  local_node* previous = nullptr;
  local_node* next = nullptr;

  local_node() = default;
  local_node(const local_node&) = delete;
  local_node& operator=(const local_node&) = delete;
  virtual ~local_node() = default;
};

/// Of the calling fiber or thread; nullptr when it has none yet.
LAGOM_EXPORT local_node* find_local(local_key key) noexcept;
LAGOM_EXPORT void add_local(local_key key, std::unique_ptr<local_node> node);  // throws std::bad_alloc
/// Ends the value, if there is one.
LAGOM_EXPORT void drop_local(local_key key) noexcept;

}  // namespace detail

/// A value of its own for every fiber, as thread_local is one for every thread. It is made when the fiber first asks for
/// it, stays with the fiber wherever that continues, and is destroyed, on the fiber, when the fiber ends: in the reverse
/// order of their making, after the fiber's callable and arguments and before join() returns. A destructor may wait; it
/// must not throw. Values that destructors make are destroyed too.
///
/// Plain threads have values of their own as well, which end with the thread; lagom::blocking() runs its function on
/// such a thread. Nothing is inherited by a fiber that is spawned.
///
/// The object may be a global, a member or a local, and may be used from any fiber or thread while it lives. If it ends
/// before a fiber that has a value, the value lives on, out of reach, until the fiber ends.
///
/// A look costs a few nanoseconds and no lock; the first one of a fiber allocates. No limit on how many there are.
template <class T>
class fiber_local {
  static_assert(std::is_object_v<T> && !std::is_const_v<T>, "lagom::fiber_local needs an object type");

 public:
  /// Values begin as T(). Throws std::bad_alloc.
  fiber_local()
    requires std::default_initializable<T>
      : key_(detail::acquire_local_key()) {}
  /// Values begin as what make() returns, called on the fiber that asks. It may throw, and may wait; it must not ask for
  /// the value it makes. It may be called by several fibers at once.
  template <class F>
    requires(std::is_invocable_r_v<T, F&> && !std::same_as<std::remove_cvref_t<F>, fiber_local>)
  explicit fiber_local(F make) : make_(std::move(make)), key_(detail::acquire_local_key()) {}
  fiber_local(const fiber_local&) = delete;
  fiber_local& operator=(const fiber_local&) = delete;
  ~fiber_local() { detail::release_local_key(key_); }

  /// The caller's value; made if there is none. The reference holds until the fiber ends or reset().
  T& get() const {
    if (detail::local_node* const found = detail::find_local(key_)) return static_cast<holder*>(found)->value;
    return make();
  }
  T& operator*() const { return get(); }
  T* operator->() const { return std::addressof(get()); }

  /// The caller's value, or nullptr: none is made.
  T* get_if() const noexcept {
    detail::local_node* const found = detail::find_local(key_);
    return found ? std::addressof(static_cast<holder*>(found)->value) : nullptr;
  }
  /// Destroys the caller's value, if it has one; the next get() makes a new one.
  void reset() noexcept { detail::drop_local(key_); }

 private:
  struct holder final : detail::local_node {
    holder()
      requires std::default_initializable<T>
        : value() {}
    explicit holder(const std::function<T()>& from) : value(from()) {}
    T value;
  };

  T& make() const {
    std::unique_ptr<holder> node = new_holder();
    T& value = node->value;
    detail::add_local(key_, std::move(node));
    return value;
  }
  std::unique_ptr<holder> new_holder() const {
    if constexpr (std::default_initializable<T>) {
      if (!make_) return std::make_unique<holder>();
    }
    return std::make_unique<holder>(make_);
  }

  const std::function<T()> make_;
  const detail::local_key key_;
};

}  // namespace v0
}  // namespace lagom
