// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

namespace lagom {
inline namespace v0 {
namespace detail {

/// Grows at the end, never moves an element, never gives one back while it lives. Any thread at any time, without a lock:
/// slab k holds First << k elements, so the largest index ever made decides the memory, within a factor of two.
template <class T, std::uint32_t First>
class stable_array {
  static_assert(std::has_single_bit(First));

 public:
  static constexpr std::uint32_t max_index = 0x7fffffff;

  constexpr stable_array() noexcept = default;
  stable_array(const stable_array&) = delete;
  stable_array& operator=(const stable_array&) = delete;
  ~stable_array() {
    for (auto& slab : slabs_) delete[] slab.load(std::memory_order_relaxed);  // nobody else is left
  }

  /// nullptr if its slab was never made.
  T* find(std::uint32_t index) const noexcept {
    const place p(index);
    // acquire: pairs with the exchange in find_or_make().
    T* slab = slabs_[p.slab].load(std::memory_order_acquire);
    return slab ? slab + p.offset : nullptr;
  }

  /// nullptr when out of memory.
  T* find_or_make(std::uint32_t index) noexcept {
    const place p(index);
    // acquire: pairs with the exchange below.
    T* slab = slabs_[p.slab].load(std::memory_order_acquire);
    if (slab) return slab + p.offset;
    T* fresh = new (std::nothrow) T[std::size_t{First} << p.slab]();
    if (!fresh) return nullptr;
    // release: the elements are made for whoever finds them; acquire: as above, if another was first.
    if (slabs_[p.slab].compare_exchange_strong(slab, fresh, std::memory_order_acq_rel)) return fresh + p.offset;
    delete[] fresh;
    return slab + p.offset;
  }

  /// For each element of each slab there is.
  template <class F>
  void for_each(F&& f) {
    for (unsigned k = 0; k < slab_count; ++k) {
      // acquire: pairs with the exchange in find_or_make().
      T* slab = slabs_[k].load(std::memory_order_acquire);
      for (std::size_t i = 0; slab && i < std::size_t{First} << k; ++i) f(slab[i]);
    }
  }

 private:
  struct place {
    unsigned slab;
    std::uint32_t offset;
    explicit place(std::uint32_t index) noexcept {
      const std::uint32_t shifted = index + First;
      slab = static_cast<unsigned>(std::bit_width(shifted) - std::bit_width(First));
      offset = shifted - (First << slab);
    }
  };
  static constexpr unsigned slab_count = 33 - std::bit_width(First);

  std::array<std::atomic<T*>, slab_count> slabs_{};
};

}  // namespace detail
}  // namespace v0
}  // namespace lagom
