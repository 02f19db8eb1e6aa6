// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <vector>

namespace lagom::bench {

/// The textbook bounded queue for OS threads: what one writes without lagom, against which its channels are measured.
/// Many senders and receivers; both sides block on a condition variable.
template <class T>
class bounded_queue {
 public:
  explicit bounded_queue(std::size_t capacity) : slots_(capacity) {}

  void send(const T& value) {
    {
      std::unique_lock lock(mutex_);
      not_full_.wait(lock, [this] { return count_ < slots_.size(); });
      slots_[next_in_] = value;
      next_in_ = after(next_in_);
      ++count_;
    }
    // After unlocking, or the woken thread would run into the lock at once.
    not_empty_.notify_one();
  }

  void receive(T& value) {
    {
      std::unique_lock lock(mutex_);
      not_empty_.wait(lock, [this] { return count_ > 0; });
      value = slots_[next_out_];
      next_out_ = after(next_out_);
      --count_;
    }
    not_full_.notify_one();
  }

 private:
  std::size_t after(std::size_t slot) const noexcept { return slot + 1 == slots_.size() ? 0 : slot + 1; }

  std::mutex mutex_;
  std::condition_variable not_full_, not_empty_;
  std::vector<T> slots_;
  std::size_t next_in_ = 0, next_out_ = 0, count_ = 0;
};

}  // namespace lagom::bench
