// SPDX-License-Identifier: BSL-1.0
#include "scheduler/attributes.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "runtime_core.hpp"
#include "worker.hpp"

// What a fiber may be told to be, and the asker's half of a change; changes.cpp has the other half and the protocol.
namespace lagom {
inline namespace v0 {
namespace detail {

namespace {

[[noreturn]] void refuse(const char* field, const std::string& was, const char* right) {
  throw std::invalid_argument(std::string("lagom: attributes::") + field + " is " + was + "; " + right);
}

void check_clamp(const char* field, const std::optional<int>& v) {
  if (v && (*v < 0 || *v > 1024)) refuse(field, std::to_string(*v), "0 to 1024 is allowed");
}

scheduler::policy kind_of(policy p) noexcept {
  return p == policy::idle ? scheduler::policy::idle : p == policy::batch ? scheduler::policy::batch : scheduler::policy::normal;
}
policy policy_of(scheduler::policy kind) noexcept {
  return kind == scheduler::policy::idle ? policy::idle : kind == scheduler::policy::batch ? policy::batch : policy::normal;
}

scheduler::clamp_request request_of(const std::optional<int>& user, scheduler::clamp_request implicit) noexcept {
  return user ? scheduler::clamp_request{static_cast<std::int16_t>(*user), true} : implicit;
}

// attributes::slice is 0 in default mode: there is no stale default to be seen, the run queue follows by itself.
scheduler::attribute_state state_of(const attributes& a, const scheduler::slice_rules& rules) noexcept {
  scheduler::attribute_state s;
  s.kind = kind_of(a.policy);
  s.nice = static_cast<std::int8_t>(a.nice);
  s.has_custom_slice = a.slice.count() != 0;
  s.slice = s.has_custom_slice ? a.slice.count() : rules.by_default;
  s.util_min = request_of(a.util_min, scheduler::implicit_min);
  s.util_max = request_of(a.util_max, scheduler::implicit_max);
  return s;
}

// REQUIRES: end_lock.
const attributes& attributes_under_lock(const fiber_block& f) noexcept {
  static const attributes& defaults = *new attributes;  // for good: fibers may outlast the destructors of statics
  return f.attrs ? *f.attrs : defaults;
}

scheduler::slice_rules rules_of(const scheduler::features& knobs) noexcept {
  return {knobs.base_slice, knobs.slice_min, knobs.slice_max, scheduler::slice_rules::beyond::is_refused};
}

// What a call names, in the words of either form.
struct demand {
  scheduler::attribute_wish wish{};
  const std::string* name = nullptr;
  const cpu_set* affinity = nullptr;
  std::optional<bool> pinned{};
  const attributes* whole = nullptr;  // set_attributes()
};

// What the fiber's attributes make of it.
struct finding {
  scheduler::change_decision decided{};
  bool renames = false, moves = false, restacks = false;
  bool is_refused() const noexcept { return restacks || decided.path == scheduler::change_path::invalid; }
  bool is_nothing() const noexcept { return decided.path == scheduler::change_path::fast && !renames && !moves && !restacks; }
};

// What is stated again is no wish: else a clamp argument would always be a change.
std::optional<int> wish_of(const std::optional<int>& stated, const std::optional<int>& has) noexcept {
  if (stated == has) return {};
  return stated.value_or(-1);
}

bool is_on_same_stack(const attributes& a, const attributes& has) noexcept {
  return a.stack_size == has.stack_size && a.stack.data() == has.stack.data() && a.stack.size() == has.stack.size();
}

// Rows 1, 4 and 8 of the decision table without the table: what most calls are, and some ten nanoseconds cheaper.
bool says_nothing_new(const attributes& a, const attributes& has) noexcept {
  return a.policy == has.policy && a.nice == has.nice && a.slice == has.slice && a.util_min == has.util_min &&
         a.util_max == has.util_max && a.pinned == has.pinned && is_on_same_stack(a, has) && a.name == has.name &&
         a.affinity == has.affinity;
}
template <class T>
bool is_same(const std::optional<T>& named, const T& has) noexcept {
  return !named || *named == has;
}
bool says_nothing_new(const attribute_change& c, const attributes& has) noexcept {
  const bool names_clamp = c.util_min || c.util_max || c.reset_util_min || c.reset_util_max;
  return !names_clamp && is_same(c.policy, has.policy) && is_same(c.nice, has.nice) && is_same(c.slice, has.slice) &&
         is_same(c.pinned, has.pinned) && is_same(c.name, has.name) && is_same(c.affinity, has.affinity);
}
template <class Call>
bool says_nothing_new(fiber_block& f, const Call& call) noexcept {
  spin_guard hold(f.end_lock);
  return says_nothing_new(call, attributes_under_lock(f));
}

finding look(const attributes& has, const demand& d, const scheduler::slice_rules& rules) {
  finding found;
  scheduler::attribute_wish wish = d.wish;
  if (d.whole) {
    wish.util_min = wish_of(d.whole->util_min, has.util_min);
    wish.util_max = wish_of(d.whole->util_max, has.util_max);
    found.restacks = !is_on_same_stack(*d.whole, has);
  }
  found.decided = scheduler::decide(state_of(has, rules), wish, rules);
  found.renames = d.name && has.name != *d.name;
  found.moves = (d.pinned && *d.pinned != has.pinned) || (d.affinity && !(has.affinity == *d.affinity));
  return found;
}

[[noreturn]] void refuse(const finding& found, const scheduler::attribute_wish& wish) {
  if (found.restacks) refuse("stack_size", "another", "it is fixed when the fiber is spawned, as stack is");
  switch (found.decided.why) {
    case scheduler::refusal::slice_out_of_range:
      refuse("slice", std::to_string(wish.slice.value_or(0)) + " ns", "0 (default) or 1 us to 100 ms is allowed");
    case scheduler::refusal::util_min_out_of_range: refuse("util_min", std::to_string(wish.util_min.value_or(0)), "0 to 1024 is allowed");
    case scheduler::refusal::util_max_out_of_range: refuse("util_max", std::to_string(wish.util_max.value_or(0)), "0 to 1024 is allowed");
    default: refuse("util_min", "above util_max", "it must not be");
  }
}

// The demand's strings and sets, copied where there is no lock; what they replace is in here afterwards.
struct belongings {
  std::unique_ptr<attributes> attrs;  // if the fiber has none of its own yet
  std::string name;
  cpu_set affinity;
  std::unique_ptr<bool[]> allowed;
};

// Takes the demand over into what get_attributes() shows and into what the owner will take. REQUIRES: end_lock.
void state(fiber_block& f, const demand& d, const finding& found, belongings& b) noexcept {
  if (!f.attrs) f.attrs = std::move(b.attrs);
  attributes& a = *f.attrs;
  const scheduler::attribute_state& s = found.decided.after;
  a.policy = policy_of(s.kind);
  a.nice = s.nice;
  a.slice = std::chrono::nanoseconds(s.has_custom_slice ? s.slice : 0);
  a.util_min = s.util_min.is_users ? std::optional<int>(s.util_min.value) : std::nullopt;
  a.util_max = s.util_max.is_users ? std::optional<int>(s.util_max.value) : std::nullopt;
  if (d.name) a.name.swap(b.name);
  if (d.affinity) std::swap(a.affinity, b.affinity);
  if (d.pinned) a.pinned = *d.pinned;
}

struct destination {
  worker* to = nullptr;                // nobody: whoever owns it comes by
  change_notice* notice = nullptr;     // null: `to` has it already
};

// Leaves the change with the fiber. REQUIRES: end_lock; not ended.
destination leave_change(fiber_block& f, const demand& d, const finding& found, belongings& b, const worker* here) noexcept {
  const scheduler::attribute_state& s = found.decided.after;
  attribute_update& u = f.update;
  spin_guard hold(u.lock);
  u.kind = s.kind;
  u.share = scheduler::share_of(s);
  u.slice = s.has_custom_slice ? s.slice : 0;
  u.clamp = scheduler::clamp_of(s);
  u.is_pinned = f.attrs->pinned;
  if (d.affinity) {
    u.allowed.swap(b.allowed);
    u.has_affinity = true;
  }
  const auto bits = static_cast<std::uint8_t>(fiber_block::change_is_due | (found.moves ? fiber_block::may_be_misplaced : 0));
  f.rare.fetch_or(bits, std::memory_order_seq_cst);  // before the looks at word and home: changes.cpp
  if (f.word.is_parked()) return {};
  worker* home = f.home.load(std::memory_order_seq_cst);  // after the bit: changes.cpp
  if (!home || home == here) return {home, nullptr};
  if (u.sent_to) return {u.sent_to, nullptr};
  u.sent_to = home;
  return {home, &u.notice};
}

}  // namespace

void runtime_core::check_attributes(const attributes& a) const {
  if (a.slice.count() != 0 && (a.slice.count() < knobs.slice_min || a.slice.count() > knobs.slice_max)) {
    refuse("slice", std::to_string(a.slice.count()) + " ns", "0 (default) or 1 us to 100 ms is allowed");
  }
  if (a.stack_size != 0 && (a.stack_size < stack_size_min || a.stack_size > stack_size_max)) {
    refuse("stack_size", std::to_string(a.stack_size) + " bytes", "0 (default) or 16 KiB to 1 GiB is allowed");
  }
  if (!a.stack.empty() && (a.stack.size() < stack_size_min || a.stack_size != 0)) {
    refuse("stack", std::to_string(a.stack.size()) + " bytes",
           "at least 16 KiB are needed, and stack_size must be 0");
  }
  check_clamp("util_min", a.util_min);
  check_clamp("util_max", a.util_max);
  if (a.util_min.value_or(0) > a.util_max.value_or(1024)) {
    refuse("util_min", std::to_string(*a.util_min), "it must not be above util_max");
  }
}

std::unique_ptr<bool[]> runtime_core::workers_on(const cpu_set& affinity) const {
  if (affinity.empty()) return nullptr;
  auto allowed = std::make_unique<bool[]>(workers.capacity());
  bool any = false;
  for (std::size_t i = 0; i < workers.capacity(); ++i) {
    allowed[i] = affinity.test(machine.cpus[whole_plan.cpu_of_worker[i]].os_index);
    any |= allowed[i] && i < workers.size();
  }
  if (!any) refuse("affinity", affinity.to_string(), "it must name the CPU of a worker (lagom-topo lists them)");
  return allowed;
}

// Of a fiber that nobody else has.
void runtime_core::apply_attributes(fiber_block& f, const attributes& a) {
  if (a.util_min || a.util_max) enable_clamps();
  f.allowed = workers_on(a.affinity);
  f.attrs = std::make_unique<attributes>(a);
  f.attrs->nice = std::clamp(a.nice, scheduler::nice_min, scheduler::nice_max);
  const scheduler::attribute_state s = state_of(*f.attrs, rules_of(knobs));
  f.kind = s.kind;
  f.share = scheduler::share_of(s);
  if (s.has_custom_slice) {
    f.has_custom_slice = true;
    f.slice = static_cast<decltype(f.slice)>(s.slice);
  }
  f.clamp = scheduler::clamp_of(s);
  if (!f.clamp.is_neutral()) f.rare.store(fiber_block::is_clamped, std::memory_order_relaxed);  // nobody else has it
  f.is_pinned = a.pinned;
  f.pin_count = a.pinned ? 1 : 0;
}

// Once for all: each worker that has or will have fibers gets something to count clamps in.
void runtime_core::enable_clamps() {
  if (has_clamps_.load(std::memory_order_acquire)) return;  // pairs with the store below
  const std::lock_guard hold(staff_lock_);
  for (const auto& w : workers) w->make_tally();
  has_clamps_.store(true, std::memory_order_release);
}

void worker::make_tally() {
  auto fresh = std::make_unique<scheduler::clamp_tally>();
  spin_guard hold(queue_lock_);
  if (!tally_) tally_ = std::move(fresh);
}

namespace {

// Keeps a fiber's runtime from ending under an asker. Made under end_lock of a fiber that has not ended.
class visit {
 public:
  explicit visit(runtime_core& core) noexcept : core_(core) {
    core.visitors.fetch_add(1, std::memory_order_relaxed);  // published by the lock
  }
  visit(const visit&) = delete;
  visit& operator=(const visit&) = delete;
  ~visit() { core_.visitors.fetch_sub(1, std::memory_order_release); }  // our last touch; pairs with terminate()

 private:
  runtime_core& core_;
};

void demand_of(fiber_block& f, const demand& d) {
  std::optional<visit> stay;
  runtime_core* core = nullptr;
  finding found;
  bool has_none = false;
  {
    spin_guard hold(f.end_lock);
    if (f.ended) return;
    core = f.core.load(std::memory_order_relaxed);  // guarded by the lock
    found = look(attributes_under_lock(f), d, rules_of(core->knobs));
    if (found.is_nothing()) return;
    has_none = !f.attrs;
    stay.emplace(*core);
  }
  if (found.is_refused()) refuse(found, d.wish);
  belongings b;
  if (has_none) b.attrs = std::make_unique<attributes>();
  if (d.name) b.name = *d.name;
  if (d.affinity) {
    b.affinity = *d.affinity;
    b.allowed = core->workers_on(*d.affinity);
  }
  if (!scheduler::clamp_of(found.decided.after).is_neutral()) core->enable_clamps();
  worker* here = current_worker();
  destination to;
  {
    spin_guard hold(f.end_lock);
    if (f.ended) return;
    found = look(attributes_under_lock(f), d, rules_of(core->knobs));  // others may have changed it meanwhile
    if (found.is_nothing()) return;
    if (!found.is_refused()) {
      state(f, d, found, b);
      if (found.decided.path == scheduler::change_path::full || found.moves) to = leave_change(f, d, found, b, here);
    }
  }
  if (found.is_refused()) refuse(found, d.wish);
  if (to.to == here && here && !to.notice) {
    here->change_here(f);
  } else if (to.to) {
    to.to->accept(to.notice);
  }
}

}  // namespace

void set_attributes(fiber_block& f, const attributes& a) {
  if (says_nothing_new(f, a)) return;
  demand d;
  d.whole = &a;
  d.wish = {.kind = kind_of(a.policy), .nice = a.nice, .slice = a.slice.count()};
  check_clamp("util_min", a.util_min);
  check_clamp("util_max", a.util_max);
  d.name = &a.name;
  d.affinity = &a.affinity;
  d.pinned = a.pinned;
  demand_of(f, d);
}

void change_attributes(fiber_block& f, const attribute_change& c) {
  if (says_nothing_new(f, c)) return;
  demand d;
  if (c.policy) d.wish.kind = kind_of(*c.policy);
  d.wish.nice = c.nice;
  if (c.slice) d.wish.slice = c.slice->count();
  check_clamp("util_min", c.util_min);
  check_clamp("util_max", c.util_max);
  if (c.util_min && c.reset_util_min) refuse("util_min", "named and reset", "only one of both is possible");
  if (c.util_max && c.reset_util_max) refuse("util_max", "named and reset", "only one of both is possible");
  d.wish.util_min = c.reset_util_min ? std::optional<int>(-1) : c.util_min;
  d.wish.util_max = c.reset_util_max ? std::optional<int>(-1) : c.util_max;
  d.wish.keeps_params = c.keep_params;
  if (c.name) d.name = &*c.name;
  if (c.affinity) d.affinity = &*c.affinity;
  d.pinned = c.pinned;
  demand_of(f, d);
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
