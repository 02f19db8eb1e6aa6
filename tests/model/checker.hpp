// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <streambuf>
#include <string_view>

// Relacy's generator multiplies by 257: a million of its schedules are a few thousand different ones, and one of the faults
// seeded in park_model.cpp is never among them. This is splitmix64, in its place.
#define RL_RANDOM_HPP
namespace rl {
struct random_generator {
  std::uint64_t state = 0;
  void seed(std::uint64_t iteration) { state = iteration * 0xd1342543de82ef95; }
  unsigned rand() {
    std::uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<unsigned>(z >> 33);
  }
};
}  // namespace rl

#include <relacy/relacy.hpp>

// Relacy takes these words for itself; the code under test means the language's.
#undef memory_order_relaxed
#undef memory_order_consume
#undef memory_order_acquire
#undef memory_order_release
#undef memory_order_acq_rel
#undef memory_order_seq_cst
#undef new
#undef delete
#undef malloc
#undef calloc
#undef realloc
#undef free
#undef assert
#undef errno

#include "os/assert.hpp"

// What lets Relacy run the project's own templates: atomics that take std::memory_order, plain variables that are checked
// for races, and a run of a model that must hold or must fail.
namespace lagom::model {

/// Mutations of every memory order at once. A model that still holds under them proves nothing.
enum class orders {
  as_written,
  no_total_order,  // seq_cst becomes acq_rel: Dekker's argument breaks
  weak_looks,      // ... of loads only
  weak_exchanges,  // ... of read-modify-writes only
  relaxed,         // nothing is published
  torn,            // a read-modify-write becomes a load and a store
};

inline rl::debug_info called_at(const char* function, const char* file, int line) {
  return {function, file, static_cast<unsigned>(line)};
}
#define LAGOM_CALL_SITE \
  rl::debug_info where = ::lagom::model::called_at(__builtin_FUNCTION(), __builtin_FILE(), __builtin_LINE())

enum class access { load, store, exchange };

template <orders Orders>
constexpr rl::memory_order translated(std::memory_order order, access how) {
  if (Orders == orders::relaxed) return rl::mo_relaxed;
  const bool weakened = Orders == orders::no_total_order || (Orders == orders::weak_looks && how == access::load) ||
                        (Orders == orders::weak_exchanges && how == access::exchange);
  if (order == std::memory_order_seq_cst && weakened) order = std::memory_order_acq_rel;
  switch (order) {
    case std::memory_order_relaxed: return rl::mo_relaxed;
    case std::memory_order_consume:
    case std::memory_order_acquire: return rl::mo_acquire;
    case std::memory_order_release: return rl::mo_release;
    case std::memory_order_acq_rel:
      return how == access::load ? rl::mo_acquire : how == access::store ? rl::mo_release : rl::mo_acq_rel;
    default: return rl::mo_seq_cst;
  }
}

/// Stands in for std::atomic.
template <class T, orders Orders>
class atomic_of {
 public:
  atomic_of() : atomic_of(T{}) {}
  explicit(false) atomic_of(T value) { it_.store(value, rl::mo_relaxed, RL_INFO); }

  T load(std::memory_order order = std::memory_order_seq_cst, LAGOM_CALL_SITE) const {
    return it_.load(translated<Orders>(order, access::load), where);
  }
  void store(T value, std::memory_order order = std::memory_order_seq_cst, LAGOM_CALL_SITE) {
    it_.store(value, translated<Orders>(order, access::store), where);
  }
  T exchange(T value, std::memory_order order = std::memory_order_seq_cst, LAGOM_CALL_SITE) {
    if constexpr (Orders == orders::torn) return torn(order, where, [=](T) { return value; });
    return it_.exchange(value, translated<Orders>(order, access::exchange), where);
  }
  T fetch_add(T value, std::memory_order order = std::memory_order_seq_cst, LAGOM_CALL_SITE) {
    if constexpr (Orders == orders::torn) return torn(order, where, [=](T old) { return old + value; });
    return it_.fetch_add(value, translated<Orders>(order, access::exchange), where);
  }
  T fetch_or(T value, std::memory_order order = std::memory_order_seq_cst, LAGOM_CALL_SITE) {
    if constexpr (Orders == orders::torn) return torn(order, where, [=](T old) { return old | value; });
    return it_.fetch_or(value, translated<Orders>(order, access::exchange), where);
  }
  T fetch_and(T value, std::memory_order order = std::memory_order_seq_cst, LAGOM_CALL_SITE) {
    if constexpr (Orders == orders::torn) return torn(order, where, [=](T old) { return old & value; });
    return it_.fetch_and(value, translated<Orders>(order, access::exchange), where);
  }
  bool compare_exchange_weak(T& expected, T value, std::memory_order success, std::memory_order failure, LAGOM_CALL_SITE) {
    if constexpr (Orders == orders::torn) return torn_exchange(expected, value, where);
    return it_.compare_exchange_weak(expected, value, translated<Orders>(success, access::exchange), where,
                                     translated<Orders>(failure, access::load), where);
  }
  bool compare_exchange_weak(T& expected, T value, std::memory_order order, LAGOM_CALL_SITE) {
    return compare_exchange_weak(expected, value, order, as_failure(order), where);
  }
  bool compare_exchange_strong(T& expected, T value, std::memory_order success, std::memory_order failure, LAGOM_CALL_SITE) {
    if constexpr (Orders == orders::torn) return torn_exchange(expected, value, where);
    return it_.compare_exchange_strong(expected, value, translated<Orders>(success, access::exchange), where,
                                       translated<Orders>(failure, access::load), where);
  }

 private:
  static constexpr std::memory_order as_failure(std::memory_order order) {
    if (order == std::memory_order_acq_rel) return std::memory_order_acquire;
    return order == std::memory_order_release ? std::memory_order_relaxed : order;
  }
  template <class Change>
  T torn(std::memory_order order, rl::debug_info where, Change change) {
    const T old = it_.load(translated<Orders>(order, access::load), where);
    it_.store(change(old), translated<Orders>(order, access::store), where);
    return old;
  }
  bool torn_exchange(T& expected, T value, rl::debug_info where) {
    const T old = it_.load(rl::mo_seq_cst, where);
    if (old != expected) {
      expected = old;
      return false;
    }
    it_.store(value, rl::mo_seq_cst, where);
    return true;
  }

  rl::atomic<T> it_;
};

template <orders Orders>
struct memory {
  template <class T>
  using atomic = atomic_of<T, Orders>;
};

/// A plain variable: two accesses without an order between them are reported.
template <class T>
class plain {
 public:
  plain() : plain(T{}) {}
  explicit(false) plain(T value) { it_(RL_INFO).store(value); }
  T get(LAGOM_CALL_SITE) const { return it_(where).load(); }
  void set(T value, LAGOM_CALL_SITE) { it_(where).store(value); }
  operator T() const { return get(); }
  plain& operator=(T value) {
    set(value);
    return *this;
  }

 private:
  rl::var<T> it_;
};

/// Relacy's mutex: acquire and release as a spin_lock has them.
class lock {
 public:
  void take(LAGOM_CALL_SITE) { it_.lock(where); }
  bool try_take(LAGOM_CALL_SITE) { return it_.try_lock(where); }
  void give(LAGOM_CALL_SITE) { it_.unlock(where); }

 private:
  rl::mutex it_;
};

class hold {
 public:
  explicit hold(lock& l, LAGOM_CALL_SITE) : lock_(l) { lock_.take(where); }
  ~hold() { lock_.give(); }
  hold(const hold&) = delete;
  hold& operator=(const hold&) = delete;

 private:
  lock& lock_;
};

/// The eventfd of a worker: a notification that comes before the sleep ends it at once.
class bell {
 public:
  bell() { it_.init(false, false, RL_INFO); }
  ~bell() { it_.deinit(RL_INFO); }
  void ring(LAGOM_CALL_SITE) { it_.set(where); }
  void wait(LAGOM_CALL_SITE) { it_.wait(false, false, where); }

 private:
  rl::generic_event it_;
};

/// The kernel's side of a futex: compares the word and falls asleep in one step.
class futex {
 public:
  /// False: the time is over. Wakes up for no reason, too.
  template <class Word>
  bool wait(Word& word, std::uint32_t seen, bool is_timed = false, LAGOM_CALL_SITE) {
    bool in_time = true;
    kernel_.lock(where);
    if (word.load(std::memory_order_relaxed, where) == seen) {
      if (is_timed) {
        in_time = asleep_.wait_for(kernel_, 0, where);
      } else {
        asleep_.wait(kernel_, where);
      }
    }
    kernel_.unlock(where);
    return in_time;
  }
  void wake(LAGOM_CALL_SITE) {
    kernel_.lock(where);
    asleep_.notify_all(where);
    kernel_.unlock(where);
  }

 private:
  rl::mutex kernel_;
  rl::condition_variable_any asleep_;
};

/// Keeps the beginning of what is written. Relacy has operator new for itself: a stream that grows in a run is torn.
class first_words : public std::streambuf {
 public:
  first_words() { begin_again(); }
  void begin_again() { setp(text_.data(), text_.data() + text_.size()); }
  std::string_view text() const { return {pbase(), static_cast<std::size_t>(pptr() - pbase())}; }

 protected:
  int_type overflow(int_type c) override { return traits_type::not_eof(c); }

 private:
  std::array<char, 1 << 16> text_;
};

/// Runs models and keeps count. Random schedules find what needs many switches, the bounded search leaves out none that
/// has few.
class session {
 public:
  static bool is_long() { return std::getenv("LAGOM_TEST_LONG") != nullptr; }

  /// The model holds under many random schedules, and under all with at most `switches` preemptions.
  template <class Model>
  void holds(const char* name, unsigned switches) {
    rl::test_params random;
    random.iteration_count = is_long() ? 3'000'000 : 100'000;
    run<Model>(name, "random", random);
    rl::test_params bounded;
    bounded.search_type = rl::sched_bound;
    bounded.context_bound = switches;
    run<Model>(name, "bounded", bounded);
  }

  /// The seeded fault is found, as what the last template parameter of the model's rl::test_suite says.
  template <class Model>
  void finds(const char* name, unsigned schedules = 1'000'000) {
    rl::test_params random;
    random.iteration_count = schedules;
    run<Model>(name, "seeded fault", random);
  }

  int result() const {
    std::cout << runs_ << " runs, " << wrong_ << " wrong" << std::endl;
    return wrong_ == 0 && runs_ > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
  }

 private:
  template <class Model>
  void run(const char* name, const char* how, rl::test_params& p) {
    constexpr rl::test_result_e wanted = Model::params::expected_result;
    words_.begin_again();
    std::ostream story(&words_);
    p.output_stream = p.progress_stream = &story;
    p.execution_depth_limit = 4000;
    const bool right = rl::simulate<Model>(p);
    ++runs_;
    wrong_ += !right;
    // Not the text of rl::test_result_str: a seeded fault that is found must not look like a failure.
    std::cout << (right ? "ok    " : "WRONG ") << name << ", " << how << ": " << p.stop_iteration << " schedules" << std::endl;
    if (!right) std::cout << "wanted " << rl::test_result_str(wanted) << ", got " << rl::test_result_str(p.test_result) << "\n" << words_.text() << std::endl;
  }

  first_words words_;
  int runs_ = 0, wrong_ = 0;
};

}  // namespace lagom::model

// The models do not link the library: an assertion of ours that fails is a verdict.
namespace lagom::os::detail {
inline void assertion_failed(const char* condition, const char*, const char* file, int line) noexcept {
  rl::ctx().fail_test(condition, rl::test_result_user_assert_failed, lagom::model::called_at("", file, line));
  std::abort();
}
}  // namespace lagom::os::detail
