// SPDX-License-Identifier: BSL-1.0
#include "fiber_local.hpp"

#include <mutex>
#include <utility>

#include <lagom/mutex.hpp>

#include "fiber.hpp"
#include "os/thread.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

namespace {

// Never destroyed: fiber_locals of static storage end in an order nobody knows.
struct key_store {
  mutex guard;
  std::vector<std::uint32_t> free;
  std::uint32_t next_index = 0;
  std::uint64_t next_id = 1;
};
key_store& keys() {
  static key_store& store = *new key_store;
  return store;
}

// Of a plain thread. Nothing to destroy in the pointer itself: it may be asked for when the thread's destructors have run.
thread_local local_values* thread_values = nullptr;

struct thread_end {
  bool is_registered = false;
  ~thread_end() {
    if (!thread_values) return;
    thread_values->drop_all();
    delete std::exchange(thread_values, nullptr);
  }
};
thread_local thread_end at_thread_end;

LAGOM_OUT_OF_LINE local_values* values_of_thread() noexcept { return thread_values; }

LAGOM_OUT_OF_LINE local_values& make_values_of_thread() {
  if (!thread_values) {
    thread_values = new local_values;
    at_thread_end.is_registered = true;  // the first use of it arranges for its destructor
  }
  return *thread_values;
}

local_values* values_of_caller() noexcept {
  fiber_block* const f = current_fiber();
  return f ? f->locals : values_of_thread();
}

local_values& make_values_of_caller() {
  if (fiber_block* const f = current_fiber()) {
    if (!f->locals) f->locals = new local_values;
    return *f->locals;
  }
  return make_values_of_thread();
}

}  // namespace

void local_values::add(local_key key, local_node& node) {
  if (key.index >= by_index.size()) by_index.resize(key.index + 1);
  node.key = key;
  node.previous = last;
  if (last) last->next = &node;
  last = &node;
  by_index[key.index] = &node;
}

void local_values::drop(local_node& node) noexcept {
  (node.next ? node.next->previous : last) = node.previous;
  if (node.previous) node.previous->next = node.next;
  if (by_index[node.key.index] == &node) by_index[node.key.index] = nullptr;
  delete &node;  // last: its destructor may ask for values, itself included
}

void local_values::drop_all() noexcept {
  while (last) drop(*last);
}

local_key acquire_local_key() {
  key_store& store = keys();
  const std::lock_guard hold(store.guard);
  if (store.free.empty()) {
    store.free.reserve(store.next_index + 1);  // room for every index, so that giving one back cannot fail
    return {store.next_index++, store.next_id++};
  }
  const std::uint32_t index = store.free.back();
  store.free.pop_back();
  return {index, store.next_id++};
}

void release_local_key(local_key key) noexcept {
  key_store& store = keys();
  const std::lock_guard hold(store.guard);
  store.free.push_back(key.index);
}

local_node* find_local(local_key key) noexcept {
  const local_values* const values = values_of_caller();
  return values ? values->find(key) : nullptr;
}

void add_local(local_key key, std::unique_ptr<local_node> node) {
  make_values_of_caller().add(key, *node);
  static_cast<void>(node.release());
}

void drop_local(local_key key) noexcept {
  local_values* const values = values_of_caller();
  if (local_node* const found = values ? values->find(key) : nullptr) values->drop(*found);
}

void end_locals(fiber_block& f) noexcept {
  f.locals->drop_all();
  delete std::exchange(f.locals, nullptr);
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
