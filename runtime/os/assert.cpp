// SPDX-License-Identifier: BSL-1.0
#include "assert.hpp"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace lagom::os {
namespace {

constexpr int standard_error = 2;

std::atomic<fatal_hook> hook{nullptr};
std::atomic<int> first_failing_thread{0};

// One write per line, so that lines of several failing threads do not mix. Cuts what does not fit.
class line {
 public:
  line& operator<<(const char* text) noexcept {
    const std::size_t length = std::strlen(text);
    const std::size_t room = sizeof text_ - 1 - used_;
    const std::size_t taken = length < room ? length : room;
    std::memcpy(text_ + used_, text, taken);
    used_ += taken;
    return *this;
  }

  line& operator<<(int number) noexcept {
    char digits[12] = {};
    char* at = digits + sizeof digits - 1;
    do {
      *--at = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number > 0);
    return *this << at;
  }

  void print() noexcept {
    text_[used_++] = '\n';
    // Nothing can be done about a failure: we are about to abort anyway.
    [[maybe_unused]] const auto written = ::write(standard_error, text_, used_);
  }

 private:
  char text_[512] = {};
  std::size_t used_ = 0;
};

[[noreturn]] void dump_and_abort() noexcept {
  const int self = static_cast<int>(::syscall(SYS_gettid));
  int first = 0;
  // Acquire: pairs with the winner's exchange; only its identity is read.
  if (first_failing_thread.compare_exchange_strong(first, self, std::memory_order_acq_rel)) {
    // Acquire: pairs with the release in set_fatal_hook, so that what the hook reads is there.
    const fatal_hook present = hook.load(std::memory_order_acquire);
    if (present != nullptr) {
      present(standard_error);
    }
  } else if (first != self) {
    // Another thread is writing the dump: let it finish. It aborts us; if it hangs, we abort it.
    const timespec patience{2, 0};
    ::nanosleep(&patience, nullptr);
  }
  std::abort();
}

}  // namespace

void set_fatal_hook(fatal_hook new_hook) noexcept {
  // Release: pairs with the acquire in dump_and_abort.
  hook.store(new_hook, std::memory_order_release);
}

void fatal(const char* what) noexcept {
  line message;
  message << "lagom: fatal: " << what;
  message.print();
  dump_and_abort();
}

namespace detail {

void assertion_failed(const char* condition, const char* message, const char* file, int line_number) noexcept {
  line text;
  text << "lagom: assertion failed: " << condition;
  if (message != nullptr) {
    text << " (" << message << ")";
  }
  text << ", " << file << ":" << line_number;
  text.print();
  dump_and_abort();
}

}  // namespace detail
}  // namespace lagom::os
