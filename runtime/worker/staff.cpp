// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <stdexcept>
#include <string>
#include <system_error>

#include "os/limits.hpp"
#include "os/thread.hpp"
#include "runtime_core.hpp"
#include "worker.hpp"

// How many workers there are while the runtime runs. Workers are added and put in reserve, never taken away: whoever holds
// an index or a pointer may keep it. One in reserve sleeps like any other and still serves its timers, descriptors, and the
// fibers that may run nowhere else; everything else it sends on (worker::evacuate, worker::send_on).
namespace lagom {
inline namespace v0 {
namespace detail {

void worker::set_reserve(bool reserve) noexcept {
  core.idle.set_reserve(seat, reserve);
  in_reserve_.store(reserve, std::memory_order_relaxed);                   // hints: evacuate() below makes up for what comes late
  is_restless_.store(reserve || core.chaos, std::memory_order_relaxed);    // the same
  if (!reserve) return;
  resched_.store(true, std::memory_order_relaxed);  // the running fiber leaves at its next preemption point
  evacuate();
  notify();  // it may have been claimed, and gone to sleep, as an ordinary worker
}

// REQUIRES: staff_lock_, room for one more. Nobody knows of it before its thread runs.
void runtime_core::add_worker() {
  std::unique_ptr<worker>& slot = workers.next_slot();
  const auto i = static_cast<unsigned>(workers.size());
  slot = std::make_unique<worker>(*this, i, ring_of(i));
  if (has_clamps_.load(std::memory_order_relaxed)) slot->make_tally();  // written under the lock
  try {
    threads_.emplace_back("lagom-" + std::to_string(i), [&w = *slot] { w.run(); });
  } catch (...) {
    slot.reset();
    throw;
  }
  workers.publish();
}

void runtime_core::set_workers(unsigned wanted) {
  change_workers(wanted);
  follows_cpus_.store(false, std::memory_order_relaxed);  // a flag of its own
}

void runtime_core::change_workers(unsigned wanted) {
  const std::size_t most = workers.capacity() - 1;  // one is kept for a substitute
  if (wanted == 0 || wanted > most) {
    throw std::invalid_argument("lagom: set_workers: " + std::to_string(wanted) + "; 1 to " + std::to_string(most) + " is allowed");
  }
  const std::lock_guard hold(staff_lock_);
  if (!is_running_) throw std::system_error(errc::stopped, "lagom: set_workers on a runtime that ends");
  while (workers.size() < wanted) add_worker();
  wanted_.store(wanted, std::memory_order_relaxed);  // a number of its own
  substitute_ = nullptr;                             // the monitor asks for another one if need be
  for (const auto& w : workers) {
    if (w->index < wanted && w->in_reserve()) w->set_reserve(false);
  }
  for (const auto& w : workers) {
    if (w->index >= wanted && !w->in_reserve()) w->set_reserve(true);
  }
}

void runtime_core::follow_cpus() noexcept {
  if (options.workers != 0 || !follows_cpus_.load(std::memory_order_relaxed)) return;  // a flag of its own
  try {
    const auto most = static_cast<unsigned>(workers.capacity() - 1);
    const std::size_t cpus = options.topology.empty() ? os::allowed_cpu_count() : machine.cpus.size();
    const unsigned wanted = std::min(most, workers_for(cpus, os::cpu_quota(options.cgroup_root)));
    if (wanted != wanted_workers()) change_workers(wanted);
  } catch (const std::exception& e) {
    log(std::string("lagom: the number of workers stays: ") + e.what());
  }
}

bool runtime_core::call_substitute() noexcept {
  const std::lock_guard hold(staff_lock_);
  if (substitute_ || !is_running_) return substitute_ != nullptr;
  try {
    const auto found = std::find_if(workers.begin(), workers.end(), [](const auto& w) { return w->in_reserve(); });
    if (found == workers.end()) {
      if (workers.size() == workers.capacity()) return false;
      add_worker();
      substitute_ = workers[workers.size() - 1].get();
    } else {
      substitute_ = found->get();
      substitute_->set_reserve(false);
    }
  } catch (const std::exception& e) {
    log(std::string("lagom: no substitute for a worker that is held: ") + e.what());
  }
  return substitute_ != nullptr;
}

void runtime_core::dismiss_substitute() noexcept {
  const std::lock_guard hold(staff_lock_);
  if (!substitute_) return;
  substitute_->set_reserve(true);
  substitute_ = nullptr;
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
