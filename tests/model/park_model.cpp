// SPDX-License-Identifier: BSL-1.0
// The park ticket under Relacy: runtime/fiber/park_word.hpp itself; around it, step by step, park(), unpark() and
// request_stop() (worker/park.cpp), settle_parked() (worker/switch.cpp) and a semaphore after the pattern in park.hpp. Who
// makes the fiber runnable runs it at once, in place of a run queue. What is lost shows when all threads have ended.
#include "checker.hpp"
#include "fiber/park_word.hpp"

namespace lagom::model {
namespace {

using lagom::detail::stoppable;
using lagom::detail::wake;

enum class fault {
  none,
  no_epoch,        // a ticket fits any wait
  no_second_look,  // settle_parked() does not look at the stop flag
  early_look,      // it looks before it has parked
  early_settle,    // parked is published before the stack is left
};

/// What happens to the fiber in its two waits: a timer in the first, then `tokens` of the semaphore, and a stop in the
/// second if there is one. Whatever comes first, it gets to its end.
template <int Tokens, bool Stopped, orders Orders, fault Fault = fault::none, rl::test_result_e Verdict = rl::test_result_success>
struct two_waits : rl::test_suite<two_waits<Tokens, Stopped, Orders, Fault, Verdict>, 3 + Stopped, Verdict> {
  template <class T>
  using atomic = atomic_of<T, Orders>;
  using park_word = lagom::detail::park_word_of<memory<Orders>::template atomic>;
  static constexpr int waits = 2;
  static constexpr std::uint64_t not_armed = ~std::uint64_t{0};
  static_assert(Tokens + Stopped >= 1, "nothing would end the second wait");

  park_word word;
  atomic<bool> stop_flag{false};
  atomic_of<std::uint64_t, orders::as_written> timer{park_word::no_epoch};

  // Where the fiber is, for threads that want to come late: by chance they hardly ever would. Orders nothing.
  atomic_of<int, orders::as_written> progress{0};

  // The semaphore; guarded by its lock.
  lock semaphore;
  plain<int> tokens{0};
  plain<bool> is_linked{false};
  plain<std::uint64_t> waiter{0};

  // The fiber's stack: whoever runs it must see what the last one left.
  plain<bool> on_stack{false}, in_wait{false};
  plain<int> stage{0}, got{0}, gave_up{0};

  void thread(unsigned index) {
    switch (index) {
      case 0: return run();
      case 1:
        for (int i = 0; i < Tokens; ++i) release();
        return;
      case 2:
        return fire();
      default: return request_stop();
    }
  }
  void after() {
    RL_ASSERT(stage == waits);
    RL_ASSERT(got + gave_up == waits);
    RL_ASSERT(got + tokens == Tokens);
  }

  // ---- A worker. Goes on with the fiber as long as its ticket was used before it had parked.
  void run() {
    while (run_until_it_parks() && !settle_parked()) {
    }
  }
  // True: armed, and the stack is left.
  bool run_until_it_parks() {
    RL_ASSERT(!on_stack);
    on_stack = true;
    int at = stage;
    if (in_wait) {
      in_wait = false;
      wake cause{};
      const bool was_used = word.end_if_used(cause);
      RL_ASSERT(was_used);
      end_wait(at++, cause);
    }
    while (at < waits && !wait(at)) ++at;
    in_wait = at < waits;
    stage = at;
    if (Fault != fault::early_settle) on_stack = false;
    return at < waits;
  }
  // worker::settle_parked(). False: nobody else will run it.
  bool settle_parked() {
    const bool may_stop = stage == 1;
    const std::uint64_t epoch = word.epoch();
    const bool looked = Fault == fault::early_look && stop_flag.load(std::memory_order_seq_cst);
    if (!word.settle(epoch, may_stop ? stoppable::yes : stoppable::no)) {
      if (Fault == fault::early_settle) on_stack = false;
      return false;
    }
    if (Fault == fault::early_settle) on_stack = false;
    if (Fault == fault::no_second_look || !may_stop) return true;
    if (Fault == fault::early_look ? looked : stop_flag.load(std::memory_order_seq_cst)) unpark(epoch, wake::stopped);
    return true;
  }
  void unpark(std::uint64_t epoch, wake cause) {
    if (Fault == fault::no_epoch) epoch = word.epoch();
    if (word.use(epoch, cause) == park_word::found::parked) run();
  }

  // ---- The fiber: acquire() of the semaphore. True: it must park.
  bool wait(int at) {
    std::uint64_t epoch = 0;
    progress.store(at, std::memory_order_relaxed);
    {
      const hold guard(semaphore);
      if (tokens > 0) {
        tokens = tokens - 1;
        got = got + 1;
        if (at == 0) timer.store(not_armed);
        return false;
      }
      epoch = word.arm();
      waiter = epoch;
      is_linked = true;
    }
    // park()
    if (at == 1 && stop_flag.load(std::memory_order_relaxed)) {
      wake cause = wake::stopped;
      word.end(cause);
      end_wait(at, cause);
      return false;
    }
    if (at == 0) timer.store(epoch, std::memory_order_release);  // pairs with the timer's thread
    return true;
  }
  void end_wait(int at, wake cause) {
    RL_ASSERT(cause != wake::expired || at == 0);
    RL_ASSERT(cause != wake::stopped || (at == 1 && Stopped));
    const hold guard(semaphore);
    RL_ASSERT(cause != wake::notified || !is_linked);
    const bool was_notified = !is_linked;
    is_linked = false;
    if (was_notified) {
      got = got + 1;
    } else {
      gave_up = gave_up + 1;
    }
  }

  // ---- The others.
  void release() {
    std::uint64_t epoch = 0;
    {
      const hold guard(semaphore);
      if (!is_linked) {
        tokens = tokens + 1;
        return;
      }
      is_linked = false;
      epoch = waiter;
    }
    unpark(epoch, wake::notified);
  }
  // The timer of the first wait, as late as it likes.
  void fire() {
    std::uint64_t epoch = 0;
    while ((epoch = timer.load(std::memory_order_acquire)) == park_word::no_epoch) rl::yield(1, RL_INFO);  // pairs with wait()
    // Too late only if something else ends that wait.
    if (Tokens > 0 && rl::rand(2)) come_late();
    if (epoch != not_armed) unpark(epoch, wake::expired);
  }
  void come_late() {
    while (progress.load(std::memory_order_relaxed) == 0) rl::yield(1, RL_INFO);
  }
  // request_stop()
  void request_stop() {
    if (rl::rand(2)) come_late();
    stop_flag.exchange(true, std::memory_order_seq_cst);  // before the look at the word; pairs with settle_parked()
    const std::uint64_t epoch = word.parked_until_stop();
    if (epoch != park_word::no_epoch) unpark(epoch, wake::stopped);
  }
};

// A plain thread that waits on its futex: park_thread() (worker/park.cpp), against a waker and its own time.
template <orders Orders, bool LooksFirst, rl::test_result_e Verdict = rl::test_result_success>
struct thread_waits : rl::test_suite<thread_waits<Orders, LooksFirst, Verdict>, 2, Verdict> {
  template <class T>
  using atomic = atomic_of<T, Orders>;
  using park_word = lagom::detail::park_word_of<memory<Orders>::template atomic>;
  static constexpr int waits = 2;  // the second without a limit

  park_word word;
  atomic<std::uint32_t> signal{0};
  futex sleeper;
  // What the waker hands over in each wait.
  plain<int> gift[waits];
  atomic_of<std::uint64_t, orders::as_written> tickets[waits];
  plain<int> presents{0};

  void thread(unsigned index) {
    if (index == 0) {
      for (int i = 0; i < waits; ++i) {
        const std::uint64_t epoch = word.arm();
        if (i == waits - 1) gift[i] = 0;
        tickets[i].store(epoch, std::memory_order_release);  // pairs with the waker
        const wake cause = park_thread(i == 0);
        RL_ASSERT(cause == wake::notified || (cause == wake::expired && i == 0));
        if (cause == wake::notified && i == waits - 1) presents = gift[i].get();
      }
      return;
    }
    // A waker per wait; the first may come late, and must not wake the second.
    for (int i = 0; i < waits; ++i) {
      std::uint64_t epoch = 0;
      while ((epoch = tickets[i].load(std::memory_order_acquire)) == 0) rl::yield(1, RL_INFO);  // pairs with the waiter
      if (i == waits - 1) gift[i] = 1;
      unpark(epoch);
    }
  }
  wake park_thread(bool is_timed) {
    for (;;) {
      std::uint32_t seen = 0;
      wake cause{};
      if (LooksFirst) seen = signal.load(std::memory_order_acquire);  // pairs with unpark()
      if (word.end_if_used(cause)) return cause;
      if (!LooksFirst) seen = signal.load(std::memory_order_acquire);
      if (!sleeper.wait(signal, seen, is_timed) && word.use(word.epoch(), wake::expired) != park_word::found::stale) ring();
    }
  }
  void unpark(std::uint64_t epoch) {
    if (word.use(epoch, wake::notified) != park_word::found::stale) ring();
  }
  void ring() {
    signal.fetch_add(1, std::memory_order_release);  // pairs with park_thread()
    sleeper.wake();
  }
  void after() { RL_ASSERT(presents == 1); }
};

constexpr auto lost = rl::test_result_user_assert_failed;
constexpr auto race = rl::test_result_data_race;

}  // namespace
}  // namespace lagom::model

int main() {
  using namespace lagom::model;
  session s;
  s.holds<two_waits<2, false, orders::as_written>>("a fiber, a waker and a timer", 2);
  s.holds<two_waits<0, true, orders::as_written>>("a fiber, a timer and a stop", 2);
  s.holds<two_waits<1, true, orders::as_written>>("a fiber, a waker, a timer and a stop", session::is_long() ? 2 : 1);
  s.finds<two_waits<2, false, orders::as_written, fault::no_epoch, lost>>("a ticket without its epoch");
  s.finds<two_waits<0, true, orders::as_written, fault::no_second_look, lost>>("no second look at the stop flag");
  s.finds<two_waits<0, true, orders::as_written, fault::early_look, lost>>("an early look at the stop flag");
  s.finds<two_waits<2, false, orders::as_written, fault::early_settle, race>>("parked before the stack is left");
  s.finds<two_waits<0, true, orders::no_total_order, fault::none, lost>>("a stop with acquire and release only");
  s.finds<two_waits<0, true, orders::weak_looks, fault::none, lost>>("a stop whose looks are weak");
  s.finds<two_waits<0, true, orders::weak_exchanges, fault::none, lost>>("a stop whose exchanges are weak");
  s.finds<two_waits<2, false, orders::relaxed, fault::none, race>>("a context that nothing publishes");
  s.finds<two_waits<2, false, orders::torn, fault::none, lost>>("torn exchanges");
  s.holds<thread_waits<orders::as_written, true>>("a plain thread", 2);
  s.finds<thread_waits<orders::as_written, false, rl::test_result_deadlock>>("the word before the signal");
  s.finds<thread_waits<orders::relaxed, true, race>>("a gift that nothing publishes");
  return s.result();
}
