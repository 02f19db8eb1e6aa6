// SPDX-License-Identifier: BSL-1.0
#include <lagom/select.hpp>

#include <algorithm>
#include <limits>
#include <vector>

#include <lagom/error.hpp>
#include <lagom/fiber.hpp>
#include <lagom/io.hpp>
#include <lagom/this_fiber.hpp>

#include "wait.hpp"

// All channels are locked while the cases are looked at and while they are entered. So nobody can choose one of our
// cases before all are entered, and a select that finds a partner need not ask whether it has been chosen itself
// meanwhile.
//
//   select                                                a partner, with the lock of its channel
//   lock all; ready? do it                                w = queue.pop(): claim 0 -> index, or w is dropped
//   none: arm, enter all; unlock all                      hand over, unlock, unpark
//   park
//   woken by time or stop: claim 0 -> withdrawn
//   lock each channel once: unlink what is still linked   (so the partner is done with our slots)
//
// Invariant: the claim changes once, from 0. Who changes it decides how the select ends; only the partner that has won
// touches the slot.
//
// Rejected: entering one channel after the other (whoever is chosen while he still enters would have to undo a choice).
namespace lagom {
inline namespace v0 {
namespace detail {

namespace {

constexpr std::uint32_t withdrawn = std::numeric_limits<std::uint32_t>::max();

// Not inlined: a fiber may be on another thread next time.
__attribute__((noinline)) std::uint32_t random_number() noexcept {
  thread_local std::uint64_t state = static_cast<std::uint64_t>(monotonic_now()) | 1;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return static_cast<std::uint32_t>(state >> 32);
}

// The locks of all channels of a select, each once, in the order of addresses.
class all_channels {
 public:
  all_channels(std::span<select_case*> cases, std::span<select_case*> room) noexcept {
    std::size_t count = 0;
    for (select_case* c : cases) {
      if (c->core) room[count++] = c;
    }
    cases_ = room.first(count);
    std::sort(cases_.begin(), cases_.end(),
              [](select_case* a, select_case* b) { return std::less<>()(a->core, b->core); });
  }
  void lock() const noexcept LAGOM_THREAD_SAFETY(no_thread_safety_analysis) {
    each([](channel_core& c) LAGOM_THREAD_SAFETY(no_thread_safety_analysis) { channel_access::guard(c).lock(); });
  }
  void unlock() const noexcept LAGOM_THREAD_SAFETY(no_thread_safety_analysis) {
    each([](channel_core& c) LAGOM_THREAD_SAFETY(no_thread_safety_analysis) { channel_access::guard(c).unlock(); });
  }

 private:
  template <class F>
  void each(F f) const noexcept {
    channel_core* last = nullptr;
    for (select_case* c : cases_) {
      if (c->core != last) f(*c->core);
      last = c->core;
    }
  }
  std::span<select_case*> cases_;
};

// How one select waits: the word that decides it, and the caller's ticket.
struct selection {
  std::atomic<std::uint32_t> claim{0};
  ticket who;

  // True: the caller decides, nobody else has.
  bool decide(std::uint32_t index) noexcept {
    std::uint32_t open = 0;
    // acq_rel: as wait_queue::pop(); who finds it decided sees what led to it.
    return claim.compare_exchange_strong(open, index, std::memory_order_acq_rel);
  }
};

// Chooses its case: when a stop is requested, or a descriptor is ready.
struct choose_now {
  selection& of;
  std::uint32_t index;
  void operator()() const noexcept {
    const ticket who = of.who;  // once decided, the select may end
    if (of.decide(index)) unpark(who);
  }
};

bool is_descriptor(const select_case& c) noexcept {
  return c.what == select_case::kind::readable || c.what == select_case::kind::writable;
}

std::error_code wait_for_descriptor(const select_case& c, std::int64_t expiry) noexcept {
  return io::detail_io::wait(c.fd, c.what == select_case::kind::writable, expiry);
}

// Descriptors and tokens: looked at before the channels, since looking at a descriptor is a system call.
void look_besides_channels(select_case& c) noexcept {
  if (c.what == select_case::kind::stop) c.is_ready = c.token.stop_requested();
  if (!is_descriptor(c)) return;
  c.error = wait_for_descriptor(c, 0);
  c.is_ready = c.error != std::errc::timed_out && c.error != errc::stopped;
}

bool is_done(channel_status status) noexcept {
  return status == channel_status::ok || status == channel_status::closed;
}

constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

// The first of the cases that is ready, from a random one on, done. REQUIRES: all channels locked.
select_choice choose_ready(std::span<select_case*> cases, ticket& woken) noexcept {
  const std::size_t start = random_number() % cases.size();
  for (std::size_t k = 0; k < cases.size(); ++k) {
    const std::size_t index = start + k < cases.size() ? start + k : start + k - cases.size();
    select_case& c = *cases[index];
    if (c.is_ready) return {index, channel_status::ok};
    if (!c.core) continue;
    const channel_status status = c.try_now(woken);
    if (is_done(status)) return {index, status};
  }
  return {none, channel_status::empty};
}

std::size_t find(std::span<select_case*> cases, select_case::kind what) noexcept {
  const auto found = std::find_if(cases.begin(), cases.end(), [what](select_case* c) { return c->what == what; });
  return found == cases.end() ? none : static_cast<std::size_t>(found - cases.begin());
}

std::size_t earliest_timeout(std::span<select_case*> cases) noexcept {
  std::size_t earliest = none;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (cases[i]->what != select_case::kind::timeout) continue;
    if (earliest == none || cases[i]->expiry < cases[earliest]->expiry) earliest = i;
  }
  return earliest;
}

// Waits in all channels at once, and for all tokens and descriptors. REQUIRES: all channels locked, no case ready.
class waiting {
 public:
  waiting(std::span<select_case*> cases, const all_channels& channels) noexcept : cases_(cases) {
    of_.who = arm();
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      select_case& c = *cases_[i];
      if (!c.core) continue;
      c.node.who = of_.who;
      c.node.claim = &of_.claim;
      c.node.index = number(i);
      c.queue->push_back(c.node);
    }
    channels.unlock();
  }
  waiting(const waiting&) = delete;
  waiting& operator=(const waiting&) = delete;
  // The partner that has won is done with the winner's slot once its channel's lock was ours.
  ~waiting() {
    for (select_case* c : cases_) {
      if (!c->core) continue;
      const spin_guard hold(channel_access::guard(*c->core));
      if (c->node.linked) c->queue->unlink(c->node);
    }
  }

  // Index of the case that was chosen; `timeout`, or none for a stop. Throws what spawning a fiber throws.
  std::size_t wait(std::size_t timeout) {
    {
      std::vector<std::unique_ptr<std::stop_callback<choose_now>>> watches;
      std::vector<fiber> lookouts;  // both end before the decision is read: they may be making it
      try {
        watch(watches, lookouts);
      } catch (...) {
        disarm();
        if (of_.decide(withdrawn)) throw;
        return chosen();
      }
      const wake how = park(wait_reason::select, timeout == none ? never : cases_[timeout]->expiry);
      if (how != wake::notified && of_.decide(withdrawn)) return how == wake::expired ? timeout : none;
    }
    return chosen();
  }

 private:
  static std::uint32_t number(std::size_t index) noexcept { return static_cast<std::uint32_t>(index + 1); }
  std::size_t chosen() const noexcept {
    // acquire: pairs with decide() and pop().
    return of_.claim.load(std::memory_order_acquire) - 1;
  }
  void watch(std::vector<std::unique_ptr<std::stop_callback<choose_now>>>& watches, std::vector<fiber>& lookouts) {
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      select_case& c = *cases_[i];
      if (c.what == select_case::kind::stop) {
        watches.push_back(std::make_unique<std::stop_callback<choose_now>>(c.token, choose_now{of_, number(i)}));
      } else if (is_descriptor(c)) {
        lookouts.push_back(spawn([this, &c, i] {
          c.error = wait_for_descriptor(c, never);
          if (c.error != errc::stopped) choose_now{of_, number(i)}();
        }));
      }
    }
  }

  std::span<select_case*> cases_;
  selection of_;
};

}  // namespace

select_choice choose_case(std::span<select_case*> cases, std::span<select_case*> by_address) {
  for (select_case* c : cases) look_besides_channels(*c);
  const all_channels channels(cases, by_address);
  const std::size_t otherwise = find(cases, select_case::kind::otherwise);
  const std::size_t timeout = earliest_timeout(cases);

  channels.lock();
  ticket woken;
  const select_choice ready = choose_ready(cases, woken);
  if (ready.index != none) {
    channels.unlock();
    if (woken.who) {
      unpark(woken);
      preemption_point();
    }
    return ready;
  }
  if (otherwise != none || (timeout != none && is_over_at_once(cases[timeout]->expiry))) {
    channels.unlock();
    give_way_instead_of_waiting(otherwise != none ? 0 : cases[timeout]->expiry);
    return {otherwise != none ? otherwise : timeout, channel_status::ok};
  }

  std::size_t index = none;
  {
    waiting all(cases, channels);
    index = all.wait(timeout);
  }
  if (index == none) throw_stopped();
  const bool is_closed = cases[index]->core && cases[index]->node.flag;
  return {index, is_closed ? channel_status::closed : channel_status::ok};
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
