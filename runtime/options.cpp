// SPDX-License-Identifier: BSL-1.0
#include "options.hpp"

#include <charconv>
#include <stdexcept>
#include <string>

#include "fiber/stack.hpp"
#include "os/limits.hpp"
#include "worker/constants.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

namespace {

constexpr unsigned workers_max = 4096;

[[noreturn]] void refuse(const std::string& what, const std::string& was, const char* right) {
  throw std::invalid_argument("lagom: " + what + " is " + was + "; " + right);
}

// A whole number from the environment; nullopt when unset or empty.
std::optional<std::uint64_t> number_from(const char* name, const char* right) {
  const std::optional<std::string> text = os::get_env(name);
  if (!text || text->empty()) return {};
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size()) refuse(std::string("environment variable ") + name, "'" + *text + "'", right);
  return value;
}

void read_environment(runtime_options& o) {
  if (o.workers == 0) {
    if (const auto n = number_from("LAGOM_WORKERS", "a number from 1 to 4096 is expected")) {
      o.workers = static_cast<unsigned>(std::min<std::uint64_t>(*n, workers_max + 1));
    }
  }
  if (o.slice.count() == 0) {
    if (const auto us = number_from("LAGOM_SLICE_US", "microseconds from 1 to 100000 are expected")) {
      o.slice = std::chrono::microseconds(std::min<std::uint64_t>(*us, 1u << 30));
    }
  }
  if (o.stack_size == 0) {
    if (const auto bytes = number_from("LAGOM_STACK_SIZE", "bytes from 16384 to 1073741824 are expected")) o.stack_size = *bytes;
  }
  if (o.features.text().empty()) {
    if (const auto list = os::get_env("LAGOM_FEATURES")) o.features = features::parse(*list);
  }
}

}  // namespace

runtime_options checked_options(runtime_options o) {
  read_environment(o);
  const scheduler::features limits = scheduler::features::runtime();
  if (o.workers > workers_max) refuse("runtime_options::workers", std::to_string(o.workers), "at most 4096 are allowed, 0 means one per CPU");
  if (o.slice.count() < 0 || (o.slice.count() != 0 && (o.slice.count() < limits.slice_min || o.slice.count() > limits.slice_max))) {
    refuse("runtime_options::slice", std::to_string(o.slice.count()) + " ns", "1 us to 100 ms is allowed, 0 means the default");
  }
  if (o.stack_size == 0) o.stack_size = stack_size_default;
  if (o.stack_size < stack_size_min || o.stack_size > stack_size_max) {
    refuse("runtime_options::stack_size", std::to_string(o.stack_size) + " bytes", "16 KiB to 1 GiB is allowed, 0 means 256 KiB");
  }
  if (o.rescue_after.count() < 0) refuse("runtime_options::rescue_after", std::to_string(o.rescue_after.count()) + " ns", "it must not be negative");
  if (o.stuck_threshold.count() < 0) refuse("runtime_options::stuck_threshold", std::to_string(o.stuck_threshold.count()) + " ns", "it must not be negative");
  if (o.max_blocking_threads == 0) o.max_blocking_threads = blocking_threads_default;
  if (o.max_blocking_threads > blocking_threads_max) {
    refuse("runtime_options::max_blocking_threads", std::to_string(o.max_blocking_threads), "at most 32768 are allowed, 0 means 64");
  }
  if (o.blocking_keep_alive.count() < 0) refuse("runtime_options::blocking_keep_alive", std::to_string(o.blocking_keep_alive.count()) + " ns", "it must not be negative");
  if (o.blocking_keep_alive.count() == 0) o.blocking_keep_alive = std::chrono::nanoseconds(blocking_keep_alive_ns);
  return o;
}

scheduler::features knobs_for(const runtime_options& options) {
  scheduler::features knobs = scheduler::features::parse(options.features.text()).value;
  if (options.slice.count() != 0) knobs.base_slice = options.slice.count();
  return knobs;
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
