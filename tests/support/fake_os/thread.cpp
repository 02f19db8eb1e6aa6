// SPDX-License-Identifier: BSL-1.0
#include "os/thread.hpp"

#include <utility>

#include "os/assert.hpp"
#include "state.hpp"

namespace lagom::fake_os {
namespace {

void run(std::size_t index) {
  // Moved out first: the body may start further threads, and the vector may grow under it.
  const std::function<void()> body = std::move(the_state().threads[index].body);
  the_state().threads[index].has_run = true;
  body();
}

}  // namespace

std::vector<std::string> waiting_threads() {
  std::vector<std::string> names;
  for (const thread_state& thread : the_state().threads) {
    if (!thread.has_run) {
      names.push_back(thread.name);
    }
  }
  return names;
}

void run_thread(const std::string& name) {
  for (std::size_t i = 0; i < the_state().threads.size(); ++i) {
    if (!the_state().threads[i].has_run && the_state().threads[i].name == name) {
      run(i);
      return;
    }
  }
  os::fatal("fake_os: no thread of that name is waiting");
}

}  // namespace lagom::fake_os

namespace lagom::os {

native_thread::native_thread(std::string name, std::function<void()> body, std::size_t) {
  auto& threads = fake_os::the_state().threads;
  threads.push_back({std::move(name), std::move(body)});
  handle_ = threads.size();
  joinable_ = true;
}

native_thread::native_thread(native_thread&& other) noexcept
    : handle_(std::exchange(other.handle_, 0)), joinable_(std::exchange(other.joinable_, false)) {}

native_thread& native_thread::operator=(native_thread&& other) noexcept {
  LAGOM_ASSERT(!joinable_);
  handle_ = std::exchange(other.handle_, 0);
  joinable_ = std::exchange(other.joinable_, false);
  return *this;
}

native_thread::~native_thread() { LAGOM_ASSERT(!joinable_); }

void native_thread::join() noexcept {
  LAGOM_ASSERT(joinable_);
  joinable_ = false;
  if (!fake_os::the_state().threads[handle_ - 1].has_run) {
    fake_os::run(handle_ - 1);
  }
}

void native_thread::detach() noexcept {
  LAGOM_ASSERT(joinable_);
  joinable_ = false;
}

void thread_yield() noexcept { ++fake_os::the_state().counts.yields; }

// The only thread sleeps: nothing can happen before its time has come.
void thread_sleep_until(std::int64_t expiry_ns) noexcept {
  if (expiry_ns > fake_os::now()) {
    fake_os::advance_to(expiry_ns);
  }
}

void set_thread_name(const char*) noexcept {}

void set_timer_slack_ns(std::uint64_t) noexcept {}

}  // namespace lagom::os
