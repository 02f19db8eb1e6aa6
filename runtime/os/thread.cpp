// SPDX-License-Identifier: BSL-1.0
#include "thread.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "assert.hpp"

namespace lagom::os {
namespace {

static_assert(sizeof(pthread_t) <= sizeof(std::uintptr_t));

struct start_order {
  std::string name;
  std::function<void()> body;
};

extern "C" void* run_start_order(void* argument) {
  const std::unique_ptr<start_order> order(static_cast<start_order*>(argument));
  set_thread_name(order->name.c_str());
  order->body();
  return nullptr;
}

class thread_attributes {
 public:
  explicit thread_attributes(std::size_t stack_size) {
    check(::pthread_attr_init(&attributes_), "initializing thread attributes");
    if (stack_size != 0) {
      const int error = ::pthread_attr_setstacksize(&attributes_, stack_size);
      if (error != 0) {
        ::pthread_attr_destroy(&attributes_);
        check(error, "thread stack size");
      }
    }
  }
  ~thread_attributes() { ::pthread_attr_destroy(&attributes_); }
  thread_attributes(const thread_attributes&) = delete;
  thread_attributes& operator=(const thread_attributes&) = delete;

  [[nodiscard]] const pthread_attr_t* get() const noexcept { return &attributes_; }

  static void check(int error, const char* what) {
    if (error != 0) {
      throw std::system_error(error, std::generic_category(), what);
    }
  }

 private:
  pthread_attr_t attributes_{};
};

pthread_t to_pthread(std::uintptr_t handle) noexcept { return static_cast<pthread_t>(handle); }

}  // namespace

native_thread::native_thread(std::string name, std::function<void()> body, std::size_t stack_size) {
  const thread_attributes attributes(stack_size);
  auto order = std::make_unique<start_order>(start_order{std::move(name), std::move(body)});
  pthread_t thread{};
  const int error = ::pthread_create(&thread, attributes.get(), &run_start_order, order.get());
  thread_attributes::check(error, "starting a thread (limits: RLIMIT_NPROC, the control group's pids.max, memory)");
  static_cast<void>(order.release());  // the thread's now
  handle_ = static_cast<std::uintptr_t>(thread);
  joinable_ = true;
}

native_thread::native_thread(native_thread&& other) noexcept
    : handle_(std::exchange(other.handle_, 0)), joinable_(std::exchange(other.joinable_, false)) {}

native_thread& native_thread::operator=(native_thread&& other) noexcept {
  LAGOM_ASSERT_MSG(!joinable_, "a joinable thread is assigned to");
  handle_ = std::exchange(other.handle_, 0);
  joinable_ = std::exchange(other.joinable_, false);
  return *this;
}

native_thread::~native_thread() { LAGOM_ASSERT_MSG(!joinable_, "a thread is destroyed before it was joined"); }

void native_thread::join() noexcept {
  LAGOM_ASSERT(joinable_);
  const int error = ::pthread_join(to_pthread(handle_), nullptr);
  LAGOM_ASSERT_MSG(error == 0, "joined from itself, or twice");
  joinable_ = false;
}

void native_thread::detach() noexcept {
  LAGOM_ASSERT(joinable_);
  const int error = ::pthread_detach(to_pthread(handle_));
  LAGOM_ASSERT(error == 0);
  joinable_ = false;
}

void thread_yield() noexcept { ::sched_yield(); }

void thread_sleep_until(std::int64_t expiry_ns) noexcept {
  const std::int64_t from_boot = expiry_ns < 0 ? 0 : expiry_ns;
  const timespec expiry{static_cast<time_t>(from_boot / 1'000'000'000), static_cast<long>(from_boot % 1'000'000'000)};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &expiry, nullptr) == EINTR) {
  }
}

void set_thread_name(const char* name) noexcept {
  // The kernel takes 16 bytes with the end, glibc's function refuses longer ones: this call cuts.
  ::prctl(PR_SET_NAME, name, 0, 0, 0);
}

void set_timer_slack_ns(std::uint64_t slack) noexcept {
  // 0 would mean "back to the default".
  ::prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack == 0 ? 1 : slack), 0, 0, 0);
}

}  // namespace lagom::os
