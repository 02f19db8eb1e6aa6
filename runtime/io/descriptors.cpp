// SPDX-License-Identifier: BSL-1.0
#include "descriptors.hpp"

#include <new>

#include <lagom/error.hpp>
#include <lagom/this_fiber.hpp>

#include "os/assert.hpp"
#include "os/clock.hpp"
#include "os/descriptor_wait.hpp"
#include "sockets.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {
namespace {

constexpr std::int64_t report_interval_ns = 10'000'000'000;

// relaxed: only has to differ.
std::atomic<std::uint64_t> last_serial{0};

}  // namespace

descriptor_table::descriptor_table() noexcept : serial_(last_serial.fetch_add(1, std::memory_order_relaxed) + 1) {}

descriptor_table::~descriptor_table() {
  entries_.for_each([](std::atomic<entry*>& e) { delete e.load(std::memory_order_relaxed); });  // nobody else is left
}

descriptor_table::entry* descriptor_table::find(int fd) noexcept {
  std::atomic<entry*>* place = entries_.find(static_cast<std::uint32_t>(fd));
  // acquire: pairs with the exchange in find_or_make().
  return place ? place->load(std::memory_order_acquire) : nullptr;
}

descriptor_table::entry* descriptor_table::find_or_make(int fd) noexcept {
  std::atomic<entry*>* place = entries_.find_or_make(static_cast<std::uint32_t>(fd));
  if (!place) return nullptr;
  // acquire: pairs with the exchange below.
  entry* e = place->load(std::memory_order_acquire);
  if (e) return e;
  entry* fresh = new (std::nothrow) entry;
  if (!fresh) return nullptr;
  // release: publishes the entry; acquire: somebody else's.
  if (place->compare_exchange_strong(e, fresh, std::memory_order_acq_rel)) return fresh;
  delete fresh;
  return e;
}

void descriptor_table::report(std::string_view line) noexcept {
  if (!reporter_.say) return;
  const std::int64_t now = os::monotonic_ns();
  std::int64_t until = quiet_until_.load(std::memory_order_relaxed);
  // relaxed: who wins may speak; nothing else hangs on it.
  if (now < until || !quiet_until_.compare_exchange_strong(until, now + report_interval_ns, std::memory_order_relaxed)) return;
  reporter_.say(reporter_.context, line);
}

// Asks for all that is waited for, under a new generation. REQUIRES: e.lock is held and somebody waits.
std::error_code descriptor_table::arm_registration(entry& e, int fd, os::poller& here) noexcept {
  os::interest wanted = os::interest::one_shot;
  for (const direction where : {direction::read, direction::write}) {
    if (e.waiting[index_of(where)]) wanted = wanted | interest_of(where);
  }
  if (e.registered_with && e.registered_with != &here) {
    // Any error means that it is not there any more, which was the aim.
    static_cast<void>(e.registered_with->remove(fd));
    e.registered_with = nullptr;
  }
  const std::uint64_t token = make_token(static_cast<std::uint32_t>(fd), ++e.generation);
  const bool known = e.registered_with != nullptr;
  std::error_code error = known ? here.modify(fd, wanted, token) : here.add(fd, wanted, token);
  if (known && error == std::errc::no_such_file_or_directory) {
    error = here.add(fd, wanted, token);  // the number belongs to another file by now
  } else if (!known && error == std::errc::file_exists) {
    error = here.modify(fd, wanted, token);
  }
  e.registered_with = error ? nullptr : &here;
  return error;
}

std::error_code descriptor_table::enroll(entry& e, int fd, direction where, waiter& w) noexcept {
  os::poller* here = current_io().poller;
  LAGOM_ASSERT_MSG(here, "descriptor_table::wait on a plain thread");
  spin_guard guard(e.lock);
  waiter*& mine = e.waiting[index_of(where)];
  if (mine) return std::make_error_code(std::errc::device_or_resource_busy);
  const bool other_waits = e.waiting[1 - index_of(where)] != nullptr;
  if (other_waits && e.registered_with) here = e.registered_with;
  mine = &w;
  w.linked = true;
  const std::error_code error = arm_registration(e, fd, *here);
  if (error) {
    mine = nullptr;
    w.linked = false;
  }
  return error;
}

std::error_code descriptor_table::wait(int fd, direction where, std::int64_t expiry) noexcept {
  return wait(fd, where, expiry, reason_of(where));
}

std::error_code descriptor_table::wait(int fd, direction where, std::int64_t expiry, wait_reason why) noexcept {
  if (fd < 0) return std::make_error_code(std::errc::bad_file_descriptor);
  if (expiry <= 0) {
    this_fiber::checkpoint();  // a loop that polls with zero time-outs must not keep the others from running
    return os::wait_for_descriptor(fd, interest_of(where), 0);
  }
  entry* e = find_or_make(fd);
  if (!e) return std::make_error_code(std::errc::not_enough_memory);
  waiter w;
  wake how = wake::notified;
  {
    counted_wait counted(*this);
    w.who = arm();
    if (const std::error_code error = enroll(*e, fd, where, w)) {
      disarm();
      // A file that epoll does not take, such as a regular one, never makes anybody wait.
      return error == std::errc::operation_not_permitted ? std::error_code() : error;
    }
    how = park(why, expiry, stoppable::yes);
    if (how != wake::notified) {
      spin_guard guard(e->lock);
      if (w.linked) {
        // The registration stays: at worst it fires once, for nobody.
        e->waiting[index_of(where)] = nullptr;
      } else {
        how = wake::notified;
      }
    }
  }
  if (how == wake::stopped) return errc::stopped;
  if (how == wake::notified) return {};
  this_fiber::checkpoint();  // as above: the deadline may have passed before the wait began
  // What is ready at the deadline counts, also when no worker has looked in time.
  return os::wait_for_descriptor(fd, interest_of(where), 0);
}

void descriptor_table::deliver(const os::poll_event& event) noexcept {
  const int fd = static_cast<int>(event.token & 0xffffffffu);
  entry* e = find(fd);
  LAGOM_ASSERT(e);
  std::array<ticket, 2> woken;
  std::size_t count = 0;
  {
    spin_guard guard(e->lock);
    if (make_token(static_cast<std::uint32_t>(fd), e->generation) != event.token) return;
    for (const direction where : {direction::read, direction::write}) {
      waiter*& slot = e->waiting[index_of(where)];
      if (!slot || !os::any_of(event.ready, ready_for(where))) continue;
      woken[count++] = slot->who;
      slot->linked = false;
      slot = nullptr;
    }
    const bool somebody_left = e->waiting[0] || e->waiting[1];
    if (somebody_left && e->registered_with && arm_registration(*e, fd, *e->registered_with)) {
      // It cannot be waited for any more (closed meanwhile, out of memory): the next call on it tells why.
      for (waiter*& slot : e->waiting) {
        if (!slot) continue;
        woken[count++] = slot->who;
        slot->linked = false;
        slot = nullptr;
      }
    }
  }
  for (std::size_t i = 0; i < count; ++i) unpark(woken[i]);
}

void descriptor_table::dispatch(std::span<const os::poll_event> events) noexcept {
  for (const os::poll_event& event : events) {
    if ((event.token & socket_mark) != 0) {
      socket_table::instance().deliver(event, serial_);
    } else {
      deliver(event);
    }
  }
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
