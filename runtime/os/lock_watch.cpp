// SPDX-License-Identifier: BSL-1.0
#include "lock_watch.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cstdio>
#include <cstring>

namespace lagom::os {

void describe_code(const void* address, std::span<char> text) noexcept {
  if (text.empty()) return;
  Dl_info found{};
  if (::dladdr(address, &found) == 0 || found.dli_fname == nullptr) {
    std::snprintf(text.data(), text.size(), "%p", address);
    return;
  }
  const char* const slash = std::strrchr(found.dli_fname, '/');
  const auto offset = static_cast<const char*>(address) - static_cast<const char*>(found.dli_fbase);
  std::snprintf(text.data(), text.size(), "%s+0x%lx%s%s%s", slash != nullptr ? slash + 1 : found.dli_fname,
                static_cast<unsigned long>(offset), found.dli_sname != nullptr ? " (" : "",
                found.dli_sname != nullptr ? found.dli_sname : "", found.dli_sname != nullptr ? ")" : "");
}

#if defined(LAGOM_CHECKING) && !defined(LAGOM_OS_THREAD_SANITIZER)

namespace {

std::atomic<lock_owner> owner_of_caller{nullptr};

held_locks* record() noexcept {
  // relaxed: set before there are fibers; the function has no state that would have to be published.
  const lock_owner owner = owner_of_caller.load(std::memory_order_relaxed);
  return owner != nullptr ? owner() : nullptr;
}

// `result`: what the call returned; only 0 is a lock taken.
int taken(int result, const void* lock, const void* site) noexcept {
  held_locks* const mine = result == 0 ? record() : nullptr;
  if (mine != nullptr) {
    ++mine->count;
    mine->lock = lock;
    mine->site = site;
  }
  return result;
}

int given_back(int result) noexcept {
  held_locks* const mine = result == 0 ? record() : nullptr;
  // None: taken before the count began, or by another flow.
  if (mine != nullptr && mine->count > 0 && --mine->count == 0) mine->lock = mine->site = nullptr;
  return result;
}

// The C library's function of the same name. Looked up at the first call, which dlsym itself may cause: its locks are
// not taken by way of these functions.
template <class Function>
Function next(std::atomic<Function>& cached, const char* name) noexcept {
  Function f = cached.load(std::memory_order_relaxed);  // whoever looks it up finds the same
  if (f == nullptr) {
    void* const symbol = ::dlsym(RTLD_NEXT, name);
    std::memcpy(&f, &symbol, sizeof f);
    cached.store(f, std::memory_order_relaxed);  // the same
  }
  return f;
}

}  // namespace

void watch_locks(lock_owner owner) noexcept { owner_of_caller.store(owner, std::memory_order_relaxed); }  // see record()

#else

void watch_locks(lock_owner) noexcept {}

#endif

}  // namespace lagom::os

#if defined(LAGOM_CHECKING) && !defined(LAGOM_OS_THREAD_SANITIZER)

namespace os = lagom::os;

// One definition: takes a lock of the given type, with further arguments if any.
#define LAGOM_WATCHED_LOCK(name, type, parameters, ...)                                           \
  extern "C" __attribute__((visibility("default"))) int name parameters {                         \
    static constinit std::atomic<int(*) parameters> cached{nullptr};                              \
    return os::taken(os::next(cached, #name)(__VA_ARGS__), lock, __builtin_return_address(0));    \
  }
#define LAGOM_WATCHED_UNLOCK(name, type)                                                          \
  extern "C" __attribute__((visibility("default"))) int name(type* lock) {                        \
    static constinit std::atomic<int (*)(type*)> cached{nullptr};                                 \
    return os::given_back(os::next(cached, #name)(lock));                                         \
  }

// The declarations say noexcept and nonnull in some versions of the headers; the definitions take over what they say.
LAGOM_WATCHED_LOCK(pthread_mutex_lock, pthread_mutex_t, (pthread_mutex_t * lock), lock)
LAGOM_WATCHED_LOCK(pthread_mutex_trylock, pthread_mutex_t, (pthread_mutex_t * lock), lock)
LAGOM_WATCHED_LOCK(pthread_mutex_timedlock, pthread_mutex_t, (pthread_mutex_t * lock, const timespec* until), lock, until)
LAGOM_WATCHED_LOCK(pthread_mutex_clocklock, pthread_mutex_t, (pthread_mutex_t * lock, clockid_t clock, const timespec* until), lock, clock, until)
LAGOM_WATCHED_UNLOCK(pthread_mutex_unlock, pthread_mutex_t)
LAGOM_WATCHED_LOCK(pthread_rwlock_rdlock, pthread_rwlock_t, (pthread_rwlock_t * lock), lock)
LAGOM_WATCHED_LOCK(pthread_rwlock_wrlock, pthread_rwlock_t, (pthread_rwlock_t * lock), lock)
LAGOM_WATCHED_LOCK(pthread_rwlock_tryrdlock, pthread_rwlock_t, (pthread_rwlock_t * lock), lock)
LAGOM_WATCHED_LOCK(pthread_rwlock_trywrlock, pthread_rwlock_t, (pthread_rwlock_t * lock), lock)
LAGOM_WATCHED_LOCK(pthread_rwlock_clockrdlock, pthread_rwlock_t, (pthread_rwlock_t * lock, clockid_t clock, const timespec* until), lock, clock, until)
LAGOM_WATCHED_LOCK(pthread_rwlock_clockwrlock, pthread_rwlock_t, (pthread_rwlock_t * lock, clockid_t clock, const timespec* until), lock, clock, until)
LAGOM_WATCHED_UNLOCK(pthread_rwlock_unlock, pthread_rwlock_t)

#endif
