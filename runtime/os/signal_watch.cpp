// SPDX-License-Identifier: BSL-1.0
#include "signal_watch.hpp"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "descriptor_wait.hpp"
#include "fork.hpp"
#include "thread.hpp"

namespace lagom::os {
namespace {

constexpr int last_signal = 64;
static_assert(quit_signal == SIGQUIT);

struct slot {
  std::atomic<std::uint64_t> watched{0};  // bit n - 1: signal n; 0 while free or being torn down
  std::atomic<std::uint64_t> pending{0};
  std::atomic<bool> passes_on{false};     // to the handler that was there before
  std::atomic<int> event_fd{-1};
  bool taken = false;  // guarded by the registry's mutex
};

// What the handler reads has static storage and only lock-free atomics.
std::array<slot, signal_watch::most> slots;
std::atomic<std::uint32_t> handlers_running{0};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

struct registry {
  std::mutex mutex;
  std::array<unsigned, last_signal + 1> watches{};
  // Ours is called by somebody who was installed over it: then what is below ours is not looked at any more.
  std::array<bool, last_signal + 1> buried{};
};

// Written while ours is not installed, or is buried; read by the handler otherwise.
std::array<struct sigaction, last_signal + 1> previous;
// Bit n - 1: `previous` is what was there before ours.
std::atomic<std::uint64_t> has_previous{0};

registry& all() {
  // Never destroyed: a watch may be another global's.
  static registry& r = *new registry;
  return r;
}

constexpr std::uint64_t bit_of(int number) noexcept { return std::uint64_t{1} << (number - 1); }

void call_previous(int number, siginfo_t* info, void* context) noexcept {
  const struct sigaction& before = previous[static_cast<std::size_t>(number)];
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(number, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(number);
  }
}

void on_signal(int number, siginfo_t* info, void* context) {
  const int saved = errno;
  bool passes_on = false;
  // seq_cst: counted before `watched` is read; pairs with the destructor, which clears that and then reads the count.
  handlers_running.fetch_add(1, std::memory_order_seq_cst);
  for (slot& s : slots) {
    // seq_cst: see above.
    if ((s.watched.load(std::memory_order_seq_cst) & bit_of(number)) == 0) continue;
    passes_on |= s.passes_on.load(std::memory_order_relaxed);  // published by `watched`
    // release: noted before the descriptor says so; pairs with the exchange in take().
    s.pending.fetch_or(bit_of(number), std::memory_order_acq_rel);
    const std::uint64_t one = 1;
    // Fails only when the counter is full, and then it is readable already.
    static_cast<void>(write_descriptor(s.event_fd.load(std::memory_order_relaxed), std::as_bytes(std::span(&one, 1))));
  }
  // release: the destructor closes the descriptor after it has seen this.
  handlers_running.fetch_sub(1, std::memory_order_acq_rel);
  // acquire: pairs with install().
  if (passes_on && (has_previous.load(std::memory_order_acquire) & bit_of(number)) != 0) call_previous(number, info, context);
  errno = saved;
}

bool is_ours(const struct sigaction& action) noexcept {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == &on_signal;
}

std::uint64_t checked_mask(std::span<const int> signals) {
  std::uint64_t mask = 0;
  for (const int number : signals) {
    const bool possible = number >= 1 && number <= last_signal && number != SIGKILL && number != SIGSTOP &&
                          number != SIGSEGV && number != SIGBUS && number != SIGFPE && number != SIGILL;
    if (!possible) throw std::invalid_argument("signal " + std::to_string(number) + " cannot be waited for");
    mask |= bit_of(number);
  }
  if (mask == 0) throw std::invalid_argument("no signal to wait for");
  return mask;
}

template <class F>
void for_each_signal(std::uint64_t mask, F&& f) {
  for (; mask != 0; mask &= mask - 1) f(std::countr_zero(mask) + 1);
}

void install(registry& r, int number) {
  const auto n = static_cast<std::size_t>(number);
  if (r.watches[n]++ != 0) return;
  // Asked first: the handler may run before sigaction() has returned.
  struct sigaction before {};
  ::sigaction(number, nullptr, &before);
  if (!is_ours(before)) {
    previous[n] = before;
    // release: pairs with on_signal(). Not if ours is further down already: the two would call each other for ever.
    if (!r.buried[n]) has_previous.fetch_or(bit_of(number), std::memory_order_acq_rel);
  }
  struct sigaction ours {};
  ours.sa_sigaction = on_signal;
  ours.sa_flags = SA_RESTART | SA_ONSTACK | SA_SIGINFO;
  ::sigfillset(&ours.sa_mask);
  if (::sigaction(number, &ours, nullptr) != 0) {
    // The C library keeps a few real-time signals to itself.
    --r.watches[n];
    throw std::invalid_argument("signal " + std::to_string(number) + " cannot be waited for");
  }
}

void uninstall(registry& r, int number) noexcept {
  const auto n = static_cast<std::size_t>(number);
  if (--r.watches[n] != 0) return;
  struct sigaction now {};
  ::sigaction(number, nullptr, &now);
  if (is_ours(now)) {
    ::sigaction(number, &previous[n], nullptr);
    return;
  }
  // Somebody who has put their handler over ours keeps it, and may go on calling ours.
  r.buried[n] = true;
  has_previous.fetch_and(~bit_of(number), std::memory_order_acq_rel);  // pairs with on_signal()
}

// REQUIRES: the registry's mutex is held.
int take_slot() {
  for (int i = 0; i < signal_watch::most; ++i) {
    slot& s = slots[static_cast<std::size_t>(i)];
    if (s.taken) continue;
    const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) throw std::system_error(errno, std::generic_category(), "eventfd (limits: RLIMIT_NOFILE, fs.file-max)");
    s.taken = true;
    s.event_fd.store(fd, std::memory_order_relaxed);  // published by `watched`
    s.pending.store(0, std::memory_order_relaxed);    // as above
    return i;
  }
  throw std::system_error(EAGAIN, std::generic_category(), "more than 32 signal watches");
}

// REQUIRES: the registry's mutex is held.
void give_back(slot& s) noexcept {
  // seq_cst: no handler that starts from here on uses the slot; pairs with on_signal().
  s.watched.store(0, std::memory_order_seq_cst);
  while (handlers_running.load(std::memory_order_seq_cst) != 0) thread_yield();  // those that started before
  ::close(s.event_fd.load(std::memory_order_relaxed));
  s.taken = false;
}

}  // namespace

// The watches are the parent's, and their descriptors are shared with it: a signal to the child must not be noted there. It does
// what it did before somebody watched. The slots stay taken.
void forget_signal_watches() noexcept {
  for (slot& s : slots) s.watched.store(0, std::memory_order_relaxed);  // alone
  handlers_running.store(0, std::memory_order_relaxed);                 // alone
  registry& r = all();
  new (&r.mutex) std::mutex;
  for (int number = 1; number <= last_signal; ++number) {
    const auto n = static_cast<std::size_t>(number);
    if (std::exchange(r.watches[n], 0u) == 0) continue;
    struct sigaction now {};
    if (::sigaction(number, nullptr, &now) == 0 && is_ours(now)) ::sigaction(number, &previous[n], nullptr);
  }
}

signal_watch::signal_watch(std::span<const int> signals, earlier handler) {
  const std::uint64_t wanted = checked_mask(signals);
  registry& r = all();
  const std::lock_guard guard(r.mutex);
  slot_ = take_slot();
  slot& s = slots[static_cast<std::size_t>(slot_)];
  s.passes_on.store(handler == earlier::called, std::memory_order_relaxed);  // published by `watched`
  // seq_cst, here for its release: the slot is ready; pairs with the load in on_signal().
  s.watched.store(wanted, std::memory_order_seq_cst);
  try {
    for_each_signal(wanted, [&](int number) {
      install(r, number);
      mask_ |= bit_of(number);
    });
  } catch (...) {
    for_each_signal(mask_, [&](int number) { uninstall(r, number); });
    give_back(s);
    throw;
  }
}

signal_watch::~signal_watch() {
  registry& r = all();
  const std::lock_guard guard(r.mutex);
  for_each_signal(mask_, [&](int number) { uninstall(r, number); });
  give_back(slots[static_cast<std::size_t>(slot_)]);
}

int signal_watch::descriptor() const noexcept {
  return slots[static_cast<std::size_t>(slot_)].event_fd.load(std::memory_order_relaxed);  // ours
}

int signal_watch::take() noexcept {
  slot& s = slots[static_cast<std::size_t>(slot_)];
  // First the descriptor, then the signals: one that comes in between makes it readable again.
  std::uint64_t count = 0;
  static_cast<void>(read_descriptor(descriptor(), std::as_writable_bytes(std::span(&count, 1))));
  // acquire: pairs with the handler's release. Several callers share what has come.
  std::uint64_t pending = s.pending.load(std::memory_order_acquire);
  while (pending != 0) {
    // acq_rel: as above.
    if (s.pending.compare_exchange_weak(pending, pending & (pending - 1), std::memory_order_acq_rel)) {
      return std::countr_zero(pending) + 1;
    }
  }
  return 0;
}

}  // namespace lagom::os
