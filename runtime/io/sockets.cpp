// SPDX-License-Identifier: BSL-1.0
#include "sockets.hpp"

#include <algorithm>
#include <utility>

#include <lagom/error.hpp>
#include <lagom/this_fiber.hpp>

#include "os/assert.hpp"
#include "os/clock.hpp"
#include "os/socket.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {
namespace {

// So often in a row has a socket been waited for away from the worker that sees its events, before its registration
// follows: the move costs two system calls, staying one notification of another thread per event.
constexpr std::uint8_t strangers_max = 8;

constexpr std::array<direction, 2> both{direction::read, direction::write};

// Makes the entry ready for its next owner and says what is to be closed. REQUIRES: e.lock is held.
int retire(socket_entry& e) noexcept {
  LAGOM_ASSERT(e.users == 0);
  const int descriptor = e.descriptor;
  if (++e.generation == 0) e.generation = 1;
  e.descriptor = -1;
  e.closing = false;
  e.busy = {};
  e.ready = {};
  e.waiting = {};
  e.deadline = {never, never};
  e.strangers = 0;
  e.registered_with = nullptr;
  e.registered_table = 0;
  return descriptor;
}

// Waiters that were unlinked under an entry's lock. A thread is told at once: it may end as soon as the lock is free.
class woken_waiters {
 public:
  void take(socket_entry& e, direction where) noexcept {
    socket_waiter* w = std::exchange(e.waiting[index_of(where)], nullptr);
    w->linked = false;
    if (w->thread) {
      w->thread->notify();
    } else {
      tickets_[count_++] = w->who;
    }
  }
  void wake() noexcept {
    for (std::size_t i = 0; i < count_; ++i) unpark(tickets_[i]);
  }

 private:
  std::array<ticket, 2> tickets_;
  std::size_t count_ = 0;
};

}  // namespace

socket_table& socket_table::instance() noexcept {
  // Never destroyed: streams may be closed by destructors of other globals.
  static socket_table& table = *new socket_table;
  return table;
}

socket_entry* socket_table::take_free() noexcept {
  spin_guard guard(free_lock_);
  if (!free_) return nullptr;
  socket_entry* e = free_;
  free_ = e->next_free;
  return e;
}

void socket_table::put_free(socket_entry& e) noexcept {
  spin_guard guard(free_lock_);
  e.next_free = free_;
  free_ = &e;
}

// In a child of fork(), at the first use there: the lock and the calls in progress are those of threads and fibers that do not
// exist. The descriptor is the child's own.
void socket_table::take_from_parent(socket_entry& e) noexcept {
  spin_guard guard(taking_lock_);
  if (e.forks.load(std::memory_order_relaxed) == os::fork_count()) return;  // written under the lock
  e.lock.unlock();
  e.users = 0;
  e.busy = {};
  e.ready = {};
  e.waiting = {};
  e.registered_with = nullptr;
  e.registered_table = 0;
  e.forks.store(os::fork_count(), std::memory_order_release);  // pairs with find()
}

std::error_code socket_table::insert(int descriptor, socket_handle& out) noexcept {
  socket_entry* e = take_free();
  if (!e) {
    std::uint32_t index = 0;
    {
      spin_guard guard(free_lock_);
      index = made_++;
    }
    // A process has fewer descriptors than there are numbers here.
    LAGOM_ASSERT(index < entries_.max_index);
    e = entries_.find_or_make(index);
    if (!e) return std::make_error_code(std::errc::not_enough_memory);
    e->index = index;
  }
  spin_guard guard(e->lock);
  e->descriptor = descriptor;
  e->forks.store(os::fork_count(), std::memory_order_release);  // pairs with find()
  out = {e->index, e->generation};
  return {};
}

void socket_table::finish_close(socket_entry& e, int descriptor) noexcept {
  os::close_descriptor(descriptor);
  put_free(e);
}

void socket_table::close(socket_handle handle) noexcept {
  socket_entry* e = handle.generation != 0 ? find(handle) : nullptr;
  if (!e) return;
  woken_waiters woken;
  int descriptor = -1;
  {
    spin_guard guard(e->lock);
    if (!e->is(handle)) return;
    e->closing = true;
    for (const direction where : both) {
      socket_waiter* w = e->waiting[index_of(where)];
      if (!w) continue;
      w->closed = true;
      woken.take(*e, where);
    }
    if (e->users == 0) descriptor = retire(*e);
  }
  if (descriptor >= 0) finish_close(*e, descriptor);
  woken.wake();
}

std::error_code socket_table::release(socket_handle handle, int& descriptor) noexcept {
  socket_entry* e = handle.generation != 0 ? find(handle) : nullptr;
  if (!e) return errc::closed;
  const io_home home = current_io();
  {
    spin_guard guard(e->lock);
    if (!e->is(handle)) return errc::closed;
    if (e->users != 0 || e->busy[0] || e->busy[1]) return std::make_error_code(std::errc::device_or_resource_busy);
    // Elsewhere the registration stays; its events carry a generation that is over.
    if (home.table && home.table->serial() == e->registered_table) {
      static_cast<void>(e->registered_with->remove(e->descriptor));
    }
    descriptor = retire(*e);
  }
  put_free(*e);
  return {};
}

void socket_table::set_deadline(socket_handle handle, direction where, std::int64_t expiry) noexcept {
  socket_entry* e = handle.generation != 0 ? find(handle) : nullptr;
  if (!e) return;
  woken_waiters woken;
  {
    spin_guard guard(e->lock);
    if (!e->is(handle)) return;
    e->deadline[index_of(where)] = expiry;
    if (e->waiting[index_of(where)]) {
      ++e->users;
      woken.take(*e, where);
    }
  }
  woken.wake();
}

bool socket_table::is_open(socket_handle handle) noexcept {
  socket_entry* e = handle.generation != 0 ? find(handle) : nullptr;
  if (!e) return false;
  spin_guard guard(e->lock);
  return e->is(handle);
}

void socket_table::deliver(const os::poll_event& event, std::uint64_t table) noexcept {
  const socket_handle handle{static_cast<std::uint32_t>(event.token) & ~socket_mark,
                             static_cast<std::uint32_t>(event.token >> 32)};
  socket_entry* e = find(handle);
  LAGOM_ASSERT(e);
  woken_waiters woken;
  {
    spin_guard guard(e->lock);
    if (!e->is(handle) || e->registered_table != table) return;
    for (const direction where : both) {
      if (!os::any_of(event.ready, ready_for(where))) continue;
      socket_waiter* w = e->waiting[index_of(where)];
      if (w && !w->only_close) {
        ++e->users;
        woken.take(*e, where);
      } else {
        e->ready[index_of(where)] = true;
      }
    }
  }
  woken.wake();
}

void socket_use::begin(socket_handle handle) noexcept {
  socket_entry* e = handle.generation != 0 ? socket_table::instance().find(handle) : nullptr;
  error_ = errc::closed;
  if (!e) return;
  spin_guard guard(e->lock);
  if (!e->is(handle)) return;
  if (directed_) {
    const std::size_t d = index_of(where_);
    if (e->busy[d]) {
      error_ = std::make_error_code(std::errc::device_or_resource_busy);
      return;
    }
    // What is there is not handed out after the deadline, or a peer that sends all the time could not be limited.
    if (e->deadline[d] != never && e->deadline[d] <= os::monotonic_ns()) {
      error_ = std::make_error_code(std::errc::timed_out);
      return;
    }
    e->busy[d] = true;
  }
  ++e->users;
  error_.clear();
  entry_ = e;
  descriptor_ = e->descriptor;
}

socket_use::socket_use(socket_handle handle, direction where) noexcept : where_(where), directed_(true) {
  begin(handle);
  if (error_) this_fiber::checkpoint();  // a loop over calls that are refused must not keep the others from running
}

socket_use::socket_use(socket_handle handle) noexcept { begin(handle); }

socket_use::~socket_use() {
  if (!entry_) return;
  int descriptor = -1;
  {
    spin_guard guard(entry_->lock);
    if (directed_) entry_->busy[index_of(where_)] = false;
    if (--entry_->users == 0 && entry_->closing) descriptor = retire(*entry_);
  }
  if (descriptor >= 0) socket_table::instance().finish_close(*entry_, descriptor);
}

std::error_code socket_use::register_with(io_home home) noexcept {
  socket_entry& e = *entry_;
  if (e.registered_table == home.table->serial()) {
    if (e.registered_with == home.poller) {
      e.strangers = 0;
      return {};
    }
    if (++e.strangers < strangers_max) return {};
    static_cast<void>(e.registered_with->remove(e.descriptor));
  }
  e.registered_table = 0;
  e.strangers = 0;
  const os::interest all = os::interest::readable | os::interest::writable | os::interest::edge;
  const std::uint64_t token = make_token(e.index | socket_mark, e.generation);
  std::error_code error = home.poller->add(e.descriptor, all, token);
  // Adopted from somebody who had it registered here.
  if (error == std::errc::file_exists) error = home.poller->modify(e.descriptor, all, token);
  if (error) return error;
  e.registered_with = home.poller;
  e.registered_table = home.table->serial();
  return {};
}

// Links w unless there is no need to wait.
socket_use::admission socket_use::admit(socket_waiter& w, io_home home, std::int64_t limit) noexcept {
  socket_entry& e = *entry_;
  const std::size_t d = index_of(where_);
  spin_guard guard(entry_->lock);
  if (e.closing) return {.error = errc::closed};
  if (!w.only_close && std::exchange(e.ready[d], false)) return {};
  const std::int64_t expiry = std::min(limit, e.deadline[d]);
  if (expiry <= 0) return {.error = std::make_error_code(std::errc::timed_out)};
  if (home.table) {
    if (const std::error_code error = register_with(home)) return {.error = error};
  }
  LAGOM_ASSERT(!e.waiting[d]);
  e.waiting[d] = &w;
  w.linked = true;
  --e.users;
  return {.must_wait = true, .expiry = expiry};
}

std::error_code socket_use::was_woken(const socket_waiter& w) noexcept {
  if (!w.closed) return {};
  entry_ = nullptr;
  return errc::closed;
}

// The wait has ended for another reason than a waker, or so it seems.
std::error_code socket_use::conclude(socket_waiter& w, std::error_code otherwise) noexcept {
  {
    spin_guard guard(entry_->lock);
    if (w.linked) {
      entry_->waiting[index_of(where_)] = nullptr;
      ++entry_->users;
      return otherwise;
    }
  }
  return was_woken(w);
}

std::error_code socket_use::wait_as_fiber(io_home home, std::int64_t limit, readiness_wakes wakes) noexcept {
  counted_wait counted(*home.table);
  socket_waiter w;
  w.only_close = wakes == readiness_wakes::no;
  w.who = arm();
  const admission a = admit(w, home, limit);
  if (!a.must_wait) {
    disarm();
    return a.error;
  }
  switch (park(reason_of(where_), a.expiry, stoppable::yes)) {
    case wake::notified: return was_woken(w);
    case wake::stopped: return conclude(w, errc::stopped);
    case wake::expired: break;
  }
  this_fiber::checkpoint();  // the deadline may have passed before the wait began
  return conclude(w, std::make_error_code(std::errc::timed_out));
}

std::error_code socket_use::wait_as_thread(std::int64_t limit, readiness_wakes wakes) noexcept {
  os::waker& own = os::waker::of_this_thread();
  const os::interest wanted = wakes == readiness_wakes::yes ? interest_of(where_) : os::interest::none;
  if (const std::error_code error = own.open()) {
    // Pausing because descriptors are scarce must work without one.
    return wakes == readiness_wakes::yes ? error : os::wait_for_descriptor(descriptor_, wanted, limit);
  }
  socket_waiter w;
  w.only_close = wakes == readiness_wakes::no;
  w.thread = &own;
  const admission a = admit(w, {}, limit);
  if (!a.must_wait) return a.error;
  const std::error_code how = os::wait_for_descriptor(descriptor_, wanted, a.expiry, own);
  return conclude(w, how == std::errc::interrupted ? std::error_code() : how);
}

std::error_code socket_use::wait(std::int64_t limit, readiness_wakes wakes) noexcept {
  LAGOM_ASSERT(entry_ && directed_);
  const io_home home = current_io();
  return home.table ? wait_as_fiber(home, limit, wakes) : wait_as_thread(limit, wakes);
}

std::error_code socket_use::wait() noexcept { return wait(never, readiness_wakes::yes); }

std::error_code socket_use::pause(std::int64_t expiry) noexcept {
  const std::error_code error = wait(expiry, readiness_wakes::no);
  if (error != std::errc::timed_out) return error;
  spin_guard guard(entry_->lock);
  return entry_->deadline[index_of(where_)] < expiry ? error : std::error_code();
}

void socket_use::report(std::string_view line) noexcept {
  if (descriptor_table* table = current_io().table) table->report(line);
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
