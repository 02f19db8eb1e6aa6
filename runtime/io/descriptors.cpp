// SPDX-License-Identifier: BSL-1.0
#include "descriptors.hpp"

#include <bit>
#include <new>

#include <lagom/error.hpp>

#include "fiber/park.hpp"
#include "os/assert.hpp"
#include "os/descriptor_wait.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {
namespace {

constexpr std::size_t index_of(direction where) noexcept { return static_cast<std::size_t>(where); }

constexpr os::interest interest_of(direction where) noexcept {
  return where == direction::read ? os::interest::readable : os::interest::writable;
}

constexpr wait_reason reason_of(direction where) noexcept {
  return where == direction::read ? wait_reason::readable : wait_reason::writable;
}

// An error or a hang-up concerns both directions: the call that follows the wait will tell.
constexpr os::readiness ready_for(direction where) noexcept {
  return os::readiness::hung_up | os::readiness::error |
         (where == direction::read ? os::readiness::readable : os::readiness::writable);
}

constexpr std::uint64_t make_token(int fd, std::uint32_t generation) noexcept {
  return static_cast<std::uint64_t>(generation) << 32 | static_cast<std::uint32_t>(fd);
}

struct counted_wait {
  descriptor_table& table;
  explicit counted_wait(descriptor_table& t) noexcept : table(t) { table.wait_began(); }
  ~counted_wait() { table.wait_ended(); }
};

}  // namespace

descriptor_table::~descriptor_table() {
  for (unsigned k = 0; k < slab_count; ++k) {
    // relaxed: nobody else is left.
    place* slab = slabs_[k].load(std::memory_order_relaxed);
    if (!slab) continue;
    for (std::uint32_t i = 0; i < first_slab << k; ++i) delete slab[i].load(std::memory_order_relaxed);
    delete[] slab;
  }
}

descriptor_table::place* descriptor_table::place_of(int fd, bool make) noexcept {
  const std::uint32_t shifted = static_cast<std::uint32_t>(fd) + first_slab;
  const unsigned k = static_cast<unsigned>(std::bit_width(shifted)) - static_cast<unsigned>(std::bit_width(first_slab));
  // acquire: pairs with the exchange below, in whoever made it.
  place* slab = slabs_[k].load(std::memory_order_acquire);
  if (!slab && make) {
    place* fresh = new (std::nothrow) place[first_slab << k]();
    if (!fresh) return nullptr;
    // release: the places are empty for whoever finds them; acquire: as above, if another was first.
    if (slabs_[k].compare_exchange_strong(slab, fresh, std::memory_order_acq_rel)) {
      slab = fresh;
    } else {
      delete[] fresh;
    }
  }
  return slab ? &slab[shifted - (first_slab << k)] : nullptr;
}

descriptor_table::entry* descriptor_table::find(int fd) noexcept {
  place* p = place_of(fd, false);
  // acquire: pairs with the exchange in find_or_make().
  return p ? p->load(std::memory_order_acquire) : nullptr;
}

descriptor_table::entry* descriptor_table::find_or_make(int fd) noexcept {
  place* p = place_of(fd, true);
  if (!p) return nullptr;
  // acquire: pairs with the exchange below.
  entry* e = p->load(std::memory_order_acquire);
  if (e) return e;
  entry* fresh = new (std::nothrow) entry;
  if (!fresh) return nullptr;
  // release: publishes the entry; acquire: somebody else's.
  if (p->compare_exchange_strong(e, fresh, std::memory_order_acq_rel)) return fresh;
  delete fresh;
  return e;
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
  const std::uint64_t token = make_token(fd, ++e.generation);
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
  if (fd < 0) return std::make_error_code(std::errc::bad_file_descriptor);
  if (expiry <= 0) {
    preemption_point();  // a loop that polls with zero time-outs must not keep the others from running
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
    how = park(reason_of(where), expiry, stoppable::yes);
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
  // What is ready at the deadline counts, also when no worker has looked in time.
  if (how == wake::expired) return os::wait_for_descriptor(fd, interest_of(where), 0);
  return {};
}

void descriptor_table::deliver(const os::poll_event& event) noexcept {
  const int fd = static_cast<int>(event.token & 0xffffffffu);
  entry* e = find(fd);
  LAGOM_ASSERT(e);
  std::array<ticket, 2> woken;
  std::size_t count = 0;
  {
    spin_guard guard(e->lock);
    if (make_token(fd, e->generation) != event.token) return;
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
  for (const os::poll_event& event : events) deliver(event);
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
