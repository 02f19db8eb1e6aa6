// SPDX-License-Identifier: BSL-1.0
#include <lagom/runtime.hpp>

#include <iostream>
#include <sstream>

#include <lagom/version.hpp>

#include "fiber/park.hpp"
#include "options.hpp"
#include "os/clock.hpp"
#include "os/limits.hpp"
#include "topology/describe.hpp"
#include "worker/runtime_core.hpp"
#include "worker/worker.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

runtime_core& core_of(const runtime& r) noexcept { return *r.core_; }

namespace {

constexpr std::int64_t patience_ns = 5'000'000'000;

void delete_core(runtime_core* core) { delete core; }

// LAGOM_PRINT_CONFIG=1: what was decided, to the log or, if there is none, to stderr: it was asked for.
void print_config(const runtime_core& core) {
  const auto wanted = os::get_env("LAGOM_PRINT_CONFIG");
  if (!wanted || wanted->empty() || *wanted == "0") return;
  std::ostringstream text;
  text << "lagom " << version() << ": " << core.workers.size() << " workers, slice " << core.knobs.base_slice / 1000 << " us, stacks of "
       << core.default_stack / 1024 << " KiB, features '" << core.options.features.text() << "'\n"
       << topology::describe(core.machine, core.plan);
  std::istringstream lines(text.str());
  for (std::string line; std::getline(lines, line);) core.options.log ? core.log(line) : void(std::cerr << line << '\n');
}

}  // namespace
}  // namespace detail

runtime::runtime(runtime_options options) : core_(nullptr, &detail::delete_core) {
  runtime_options checked = detail::checked_options(std::move(options));
  const scheduler::features knobs = detail::knobs_for(checked);
  core_.reset(new detail::runtime_core(*this, std::move(checked), knobs));
  detail::print_config(*core_);
  core_->start();
}

runtime::~runtime() {
  if (core_->is_parents()) {
    // Its threads are not here, its locks may be held for ever: nothing can be ended or given back.
    static_cast<void>(core_.release());
  } else if (current() == this) {
    core_->abandon_at_exit();
    static_cast<void>(core_.release());
  } else {
    core_->request_stop();
    if (!core_->wait_until_empty(os::saturating_add(os::monotonic_ns(), detail::patience_ns))) {
      for (const fiber_info& f : core_->list_fibers()) {
        core_->log("lagom: still waiting for fiber " + std::to_string(f.id) + " '" + f.name + "' (" + to_string(f.state) +
                   (f.wait_reason.empty() ? "" : ", " + f.wait_reason) + ")");
      }
    }
    core_->shut_down();
    core_.reset();
  }
  // Statics that end after this one look at core_: the compiler must not think that nobody can.
  asm volatile("" : : "r"(this) : "memory");
}

void runtime::refuse_inside_fiber() {
  if (detail::current_fiber()) throw std::system_error(errc::would_deadlock, "lagom: runtime::run from a fiber; spawn and join instead");
}

void runtime::refuse_after_end() { throw std::system_error(errc::stopped, "lagom: spawn on a runtime that has ended"); }

void runtime::request_stop() noexcept { core_->request_stop(); }
std::stop_token runtime::get_stop_token() const { return core_->stop_source.get_token(); }

stop_report runtime::stop() { return stop_until_ns(detail::never); }

stop_report runtime::stop_until_ns(std::int64_t expiry) {
  core_->check_process("stop");
  if (current() == this) throw std::system_error(errc::would_deadlock, "lagom: runtime::stop from one of its fibers; use request_stop");
  core_->request_stop();
  if (core_->wait_until_empty(expiry)) return {};
  return {core_->list_fibers()};
}

bool runtime::drain_until_ns(std::int64_t expiry) {
  core_->check_process("drain_for");
  if (current() == this) throw std::system_error(errc::would_deadlock, "lagom: runtime::drain_for from one of its fibers");
  return core_->wait_until_empty(expiry);
}

runtime_stats runtime::stats() const {
  core_->check_process("stats");
  return core_->stats();
}

void runtime::dump(std::ostream& out) const {
  core_->check_process("dump");
  core_->dump(out);
}

unsigned runtime::workers() const noexcept { return core_->wanted_workers(); }

void runtime::set_workers(unsigned wanted) {
  core_->check_process("set_workers");
  core_->set_workers(wanted);
}

void runtime::trim() {
  core_->check_process("trim");
  core_->stacks.trim();
}

void runtime::set_default_slice(std::chrono::nanoseconds slice) {
  core_->check_process("set_default_slice");
  if (slice.count() < core_->knobs.slice_min || slice.count() > core_->knobs.slice_max) {
    throw std::invalid_argument("lagom: set_default_slice: " + std::to_string(slice.count()) + " ns; 1 us to 100 ms is allowed");
  }
  for (const auto& w : core_->workers) w->set_default_slice(slice.count());
}

runtime* runtime::current() noexcept {
  detail::worker* w = detail::current_worker();
  return w && w->running() ? &w->core.owner : nullptr;
}

}  // namespace v0
}  // namespace lagom
