// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include <lagom/detail/export.hpp>
#include <lagom/detail/spin_lock.hpp>
#include <lagom/detail/wait_queue.hpp>

namespace lagom {
inline namespace v0 {
namespace detail {

struct no_completion {
  void operator()() noexcept {}
};

/// The part of a barrier that does not know its completion.
class barrier_core {
 public:
  barrier_core(const barrier_core&) = delete;
  barrier_core& operator=(const barrier_core&) = delete;

 protected:
  constexpr explicit barrier_core(std::ptrdiff_t expected) noexcept : expected_(expected), left_(expected) {}

  enum class arrival { early, last };
  /// Counts n arrivals, all in the phase that is returned. `last`: all have arrived; the caller runs the completion and
  /// then end_phase().
  LAGOM_EXPORT arrival arrive(std::ptrdiff_t n, std::ptrdiff_t leaving, std::uint64_t& phase) noexcept;
  /// Starts the next phase and makes those who wait for the end of this one runnable.
  LAGOM_EXPORT void end_phase() noexcept;
  LAGOM_EXPORT void wait_for_end(std::uint64_t phase) const noexcept;

 private:
  mutable spin_lock guard_;
  std::ptrdiff_t expected_;  // in each phase
  std::ptrdiff_t left_;      // in this one
  std::uint64_t phase_ = 0;
  mutable wait_queue waiters_;
};

}  // namespace detail

/// Lets a group meet again and again, as std::barrier: nobody goes on before all have arrived. Fibers and plain threads
/// in any mixture. Waiting is not ended by a stop request.
///
/// The completion is called once per phase, by the last to arrive, before anybody goes on and without a lock held; it
/// must not throw.
template <class Completion = detail::no_completion>
class barrier : private detail::barrier_core {
  static_assert(std::is_nothrow_invocable_v<Completion&>, "lagom::barrier: the completion must be noexcept");

 public:
  class arrival_token {
   public:
    arrival_token(arrival_token&&) noexcept = default;
    arrival_token& operator=(arrival_token&&) noexcept = default;

   private:
    friend barrier;
    explicit arrival_token(std::uint64_t phase) noexcept : phase_(phase) {}
    std::uint64_t phase_;
  };

  /// REQUIRES: expected >= 0.
  constexpr explicit barrier(std::ptrdiff_t expected, Completion completion = Completion())
      : barrier_core(expected), completion_(std::move(completion)) {}

  static constexpr std::ptrdiff_t max() noexcept { return std::numeric_limits<std::ptrdiff_t>::max(); }

  /// Arrives n times without waiting. REQUIRES: 0 < n, and no more than are still expected. O(waiters) for the last
  /// one.
  [[nodiscard]] arrival_token arrive(std::ptrdiff_t n = 1) noexcept { return arrival_token(arrive_leaving(n, 0)); }

  /// Waits for the end of the phase in which the token was given out. Returns at once if it has ended.
  void wait(arrival_token&& token) const noexcept { wait_for_end(token.phase_); }

  void arrive_and_wait() noexcept { wait(arrive()); }

  /// Arrives, and will not come again: one less is expected from the next phase on.
  void arrive_and_drop() noexcept { arrive_leaving(1, 1); }

 private:
  std::uint64_t arrive_leaving(std::ptrdiff_t n, std::ptrdiff_t leaving) noexcept {
    std::uint64_t phase = 0;
    if (barrier_core::arrive(n, leaving, phase) == arrival::last) {
      completion_();
      end_phase();
    }
    return phase;
  }

  Completion completion_;
};

}  // namespace v0
}  // namespace lagom
