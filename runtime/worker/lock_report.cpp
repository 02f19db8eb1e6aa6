// SPDX-License-Identifier: BSL-1.0
#include "lock_report.hpp"

#include <algorithm>
#include <cstdio>

#include "os/descriptor_wait.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

namespace {

// Places that were reported. When it is full everything new is reported every time.
std::atomic<const void*> reported[64];

bool is_reported(const void* site) noexcept {
  for (std::atomic<const void*>& slot : reported) {
    const void* found = nullptr;
    // relaxed: the addresses guard nothing; two threads may at worst report the same place twice.
    if (slot.compare_exchange_strong(found, site, std::memory_order_relaxed)) return false;
    if (found == site) return true;
  }
  return false;
}

const char* what_it_does(const fiber_block& f, departure how) noexcept {
  switch (how) {
    case departure::parked: return to_string(f.reason.load(std::memory_order_relaxed));  // its own
    case departure::exited: return "its end";
    default: return "yield";
  }
}

}  // namespace

os::held_locks* locks_of_caller() noexcept {
  fiber_block* const f = current_fiber();
  return f ? &f->locks : nullptr;
}

void report_held_locks(const fiber_block& f, departure how) noexcept {
  if (f.locks.count == 0 || is_reported(f.locks.site)) return;
  char place[160];
  os::describe_code(f.locks.site, place);
  char line[512];
  const int n = std::snprintf(line, sizeof line,
                              "lagom: fiber %llu '%s' gives its worker away (%s) while it holds %u mutex(es) of the system, the last one locked "
                              "at %s: it may go on on another thread. Use lagom::mutex, or this_fiber's non_migratable\n",
                              static_cast<unsigned long long>(f.serial), f.attrs ? f.attrs->name.c_str() : "", what_it_does(f, how),
                              f.locks.count, place);
  const std::size_t length = std::min(sizeof line - 1, static_cast<std::size_t>(std::max(n, 0)));
  os::write_descriptor(2, std::as_bytes(std::span(line, length)));
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
