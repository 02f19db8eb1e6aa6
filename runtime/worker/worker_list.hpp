// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "os/assert.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

class worker;

/// The workers of a runtime, by index. Grows while others read, up to a capacity fixed at the start, and never shrinks: a
/// worker that is not wanted any more stays in reserve. So an index that was seen once is good for ever.
class worker_list {
 public:
  explicit worker_list(std::size_t capacity) : slots_(std::make_unique<std::unique_ptr<worker>[]>(capacity)), capacity_(capacity) {}

  std::size_t capacity() const noexcept { return capacity_; }
  // acquire: pairs with publish().
  std::size_t size() const noexcept { return size_.load(std::memory_order_acquire); }
  const std::unique_ptr<worker>& operator[](std::size_t i) const noexcept { return slots_[i]; }
  const std::unique_ptr<worker>* begin() const noexcept { return slots_.get(); }
  const std::unique_ptr<worker>* end() const noexcept { return slots_.get() + size(); }

  /// In two steps, so that nobody counts on a worker whose thread could not be started. One thread at a time.
  std::unique_ptr<worker>& next_slot() noexcept {
    LAGOM_ASSERT(size() < capacity_);
    return slots_[size()];
  }
  void publish() noexcept { size_.store(size() + 1, std::memory_order_release); }  // pairs with size()

 private:
  std::unique_ptr<std::unique_ptr<worker>[]> slots_;
  std::size_t capacity_;
  std::atomic<std::size_t> size_{0};
};

}  // namespace detail
}  // namespace v0
}  // namespace lagom
