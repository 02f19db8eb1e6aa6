// SPDX-License-Identifier: BSL-1.0
// What holds after every verb, derived again from the entities themselves. Slow, for tests.
#include "run_queue_inline.hpp"

namespace lagom::scheduler {

namespace {

struct totals {
  wide offsets = 0;
  std::int64_t weight = 0;
  std::uint32_t queued = 0;
  std::uint32_t delayed = 0;
  std::uint32_t idle = 0;
  std::uint32_t eligible = 0;
  std::uint32_t shortest = UINT32_MAX;
  std::uint32_t longest = 0;
};

}  // namespace

void run_queue::check_invariants() const {
  waiting_.check_invariants();
  totals all;
  for_each([&](const entity& e) {
    assert(e.on_rq);
    assert(e.share.scaled > 0);
    assert(e.slice > 0);
    assert(e.slice <= slice_limit);
    assert(e.request == to_virtual(e.slice, e.share) || e.kind == policy::idle);
    assert(e.kind != policy::idle || e.request <= to_virtual(e.slice, e.share));
    assert(!e.deadline_is_relative);
    assert(e.owes_to == nullptr);
    assert(e.sequence <= last_sequence_);
    assert((&e == current_) == (e.where == place::nowhere));
    // Far from the ends of what a signed distance can tell.
    assert(key(e).ticks < (std::int64_t{1} << 62));
    assert(key(e).ticks > -(std::int64_t{1} << 62));
    all.offsets += static_cast<wide>(key(e).ticks) * e.share.scaled;
    all.weight += e.share.scaled;
    ++all.queued;
    all.delayed += e.delayed ? 1 : 0;
    all.idle += e.kind == policy::idle && !e.delayed ? 1 : 0;
    all.eligible += is_eligible(e) ? 1 : 0;
    all.shortest = std::min(all.shortest, e.slice);
    all.longest = std::max(all.longest, e.slice);
  });
  assert(all.offsets == offsets_);
  assert(all.weight == total_weight_);
  assert(all.queued == queued_);
  assert(all.delayed == delayed_);
  assert(all.idle == idle_);
  assert(buddy_ == nullptr || buddy_->on_rq);
  if (queued_ == 0) {
    assert(offsets_ == 0);
    return;
  }
  assert(all.eligible > 0);
  assert(all.shortest == shortest_queued_slice());
  assert(all.longest == longest_queued_slice());
  // Lags sum to nothing but the rounding of V, which is downward and less than a tick for each unit of weight.
  const wide rounding = offsets_ - static_cast<wide>((virtual_now() - origin_).ticks) * total_weight_;
  assert(rounding >= 0);
  assert(rounding < total_weight_);
}

}  // namespace lagom::scheduler
