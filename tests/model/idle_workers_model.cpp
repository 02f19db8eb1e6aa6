// SPDX-License-Identifier: BSL-1.0
// A worker's way to sleep and the ways to wake it, under Relacy: runtime/worker/idle_workers.hpp and inbox.hpp themselves;
// around them, step by step, worker::run(), sleep() and has_reason_to_stay() (loop.cpp), rob() (steal.cpp), send()
// (park.cpp), runtime_core::terminate(), fiber_ended() and wait_until_empty() (runtime_core.hpp, .cpp), monitor::run() and
// nudge() (monitor.hpp, .cpp). A sleep that nothing ends is a deadlock here.
#include "checker.hpp"
#include "worker/idle_workers.hpp"
#include "worker/inbox.hpp"

namespace lagom::model {
namespace {

enum class fault {
  none,
  no_last_look,     // the worker sleeps as soon as it is announced
  only_the_inbox,   // its last look leaves out the run queue, to which a thief moves its mail
  claim_then_push,  // the sender looks for the sleeper before it has sent
  ring_then_push,   // who has claimed the worker first notifies it before it has sent
  quiet_end,        // the last look leaves out `terminating`
};

struct job {
  plain<job*> next{nullptr};
  plain<int> content{0};
};

constexpr unsigned sleeper = 0, thief = 1, sender = 2;

template <orders Orders, fault Fault = fault::none, rl::test_result_e Verdict = rl::test_result_success>
struct sleep_and_wake : rl::test_suite<sleep_and_wake<Orders, Fault, Verdict>, 4, Verdict> {
  template <class T>
  using atomic = atomic_of<T, Orders>;
  static constexpr int jobs = 2;  // one from each sender

  lagom::detail::inbox<job, memory<Orders>::template atomic> inbox;
  lagom::detail::idle_workers_of<memory<Orders>::template atomic> idle{1};
  atomic<bool> terminating{false};
  atomic_of<int, orders::as_written> finished{0};
  lock queue_lock;
  bell poller;
  job all[jobs];
  plain<job*> queue{nullptr};  // guarded by queue_lock
  rl::atomic<int> claims{0}, sleeps{0};

  void thread(unsigned index) {
    switch (index) {
      case sleeper: return work();
      case thief: return rob();
      default: return send(all[index - sender]);
    }
  }

  // worker::run()
  void work() {
    while (!terminating.load(std::memory_order_acquire)) {  // pairs with terminate()
      queue_lock.take();
      empty_inbox();
      job* next = pick();
      queue_lock.give();
      if (next) {
        run(*next);
      } else {
        sleep();
      }
    }
  }
  void sleep() {
    sleeps.fetch_add(1, rl::mo_relaxed, RL_INFO);
    idle.announce(0);
    if (Fault == fault::no_last_look || !has_reason_to_stay()) {
      poller.wait();
      idle.retract(0);
    }
    idle.retract(0);
  }
  bool has_reason_to_stay() {
    if (!inbox.is_empty()) return true;
    if (Fault != fault::quiet_end && terminating.load(std::memory_order_seq_cst)) return true;  // pairs with terminate()
    if (Fault == fault::only_the_inbox) return false;
    const hold guard(queue_lock);
    return queue.get() != nullptr;
  }

  // worker::rob(), by another worker
  void rob() {
    for (int i = 0; i < 2; ++i) {
      if (inbox.seems_empty() || !queue_lock.try_take()) continue;
      empty_inbox();
      const bool too_fresh = rl::rand(2) == 0;
      job* loot = too_fresh ? nullptr : pick();
      queue_lock.give();
      if (loot) run(*loot);
    }
  }

  // worker::send(); the second sender has chosen the worker because it sleeps, runtime_core::select()
  void send(job& j) {
    j.content = 1;
    const bool claims_first = Fault == fault::none || Fault == fault::ring_then_push;
    if (claims_first && &j == &all[1] && idle.claim(0)) {
      claims.fetch_add(1, rl::mo_relaxed, RL_INFO);
      if (Fault == fault::ring_then_push) poller.ring();
      inbox.push(j);
      if (Fault != fault::ring_then_push) poller.ring();
      return;
    }
    if (Fault == fault::claim_then_push) {
      claim_and_notify();
      inbox.push(j);
    } else {
      inbox.push(j);
      claim_and_notify();
    }
  }
  void claim_and_notify() {
    if (!idle.claim(0)) return;
    claims.fetch_add(1, rl::mo_relaxed, RL_INFO);
    poller.ring();
  }

  void empty_inbox() {
    for (job* j = inbox.take_all(); j;) {
      job* next = j->next;
      j->next = queue.get();
      queue = j;
      j = next;
    }
  }
  job* pick() {
    job* j = queue;
    if (j) queue = j->next.get();
    return j;
  }
  void run(job& j) {
    RL_ASSERT(j.content == 1);  // once each
    j.content = 2;
    if (finished.fetch_add(1) + 1 == jobs) terminate();
  }
  // runtime_core::terminate()
  void terminate() {
    terminating.store(true, std::memory_order_seq_cst);  // before the notification; pairs with has_reason_to_stay()
    poller.ring();
  }

  void after() {
    RL_ASSERT(finished.load() == jobs);
    // A sleep is ended by one notification at most.
    RL_ASSERT(claims.load(rl::mo_relaxed, RL_INFO) <= sleeps.load(rl::mo_relaxed, RL_INFO));
  }
};

// One announcement, two that claim and the worker that gets up by itself: one of the three has it.
template <orders Orders, rl::test_result_e Verdict = rl::test_result_success>
struct one_claim : rl::test_suite<one_claim<Orders, Verdict>, 3, Verdict> {
  static constexpr unsigned workers = 66, mine = 65;  // in the second word
  lagom::detail::idle_workers_of<memory<Orders>::template atomic> idle{workers};
  rl::atomic<int> owners{0};

  void thread(unsigned index) {
    bool won = false;
    switch (index) {
      case 0:
        idle.announce(mine);
        won = idle.retract(mine);
        break;
      case 1: won = idle.claim(mine); break;
      default: {
        const unsigned claimed = idle.claim_any(mine - 1);
        RL_ASSERT(claimed == mine || claimed == idle.none);
        won = claimed == mine;
      }
    }
    if (won) owners.fetch_add(1, rl::mo_relaxed, RL_INFO);
  }
  void after() {
    RL_ASSERT(owners.load(rl::mo_relaxed, RL_INFO) == 1);
    RL_ASSERT(!idle.any());
  }
};

// The last fibers of two workers, and a thread that waits until there are none.
enum class end_fault {
  none,
  no_second_look,  // a worker that goes to sleep does not look for who waits
  bare_count,      // is_empty() does not look at the announcements
};

template <orders Orders, end_fault Fault = end_fault::none, rl::test_result_e Verdict = rl::test_result_success>
struct last_fibers : rl::test_suite<last_fibers<Orders, Fault, Verdict>, 3, Verdict> {
  template <class T>
  using atomic = atomic_of<T, Orders>;
  static constexpr unsigned workers = 2;

  lagom::detail::idle_workers_of<memory<Orders>::template atomic> idle{65};  // the two are in different words
  atomic<int> finished[workers];
  atomic<std::uint32_t> someone_waits{0}, signal{0};
  futex waiter;

  void thread(unsigned index) {
    if (index == workers) return wait_until_empty();
    // bury()
    finished[index].store(1, std::memory_order_release);  // pairs with is_empty()
    fiber_ended();
    // sleep(), for good
    idle.announce(index * 64);
    if (Fault != end_fault::no_second_look) fiber_ended();
  }
  void fiber_ended() {
    if (someone_waits.load(std::memory_order_seq_cst) == 0 || !is_empty()) return;  // pairs with wait_until_empty()
    signal.fetch_add(1, std::memory_order_seq_cst);
    waiter.wake();
  }
  bool is_empty() {
    if (Fault != end_fault::bare_count) static_cast<void>(idle.count());
    int ended = 0;
    for (auto& n : finished) ended += n.load(std::memory_order_acquire);  // pairs with thread()
    return ended == workers;
  }
  void wait_until_empty() {
    someone_waits.fetch_add(1, std::memory_order_seq_cst);  // before is_empty(); pairs with fiber_ended()
    for (;;) {
      const std::uint32_t seen = signal.load(std::memory_order_seq_cst);
      if (is_empty()) return;
      waiter.wait(signal, seen);
    }
  }
};

// A worker gets up for long while the monitor goes to sleep: the monitor must not sleep on.
template <orders Orders, bool LooksAgain, rl::test_result_e Verdict = rl::test_result_success>
struct monitor_sleeps : rl::test_suite<monitor_sleeps<Orders, LooksAgain, Verdict>, 2, Verdict> {
  template <class T>
  using atomic = atomic_of<T, Orders>;

  lagom::detail::idle_workers_of<memory<Orders>::template atomic> idle{1};
  atomic<bool> asleep{false};
  atomic<std::uint32_t> signal{0};
  futex sleeper;

  void before() { idle.announce(0); }
  void thread(unsigned index) {
    if (index == 0) {
      idle.retract(0);
      // nudge()
      if (!asleep.load(std::memory_order_seq_cst)) return;  // pairs with run()
      signal.fetch_add(1, std::memory_order_seq_cst);
      sleeper.wake();
      return;
    }
    // run()
    for (;;) {
      const std::uint32_t seen = signal.load(std::memory_order_seq_cst);
      if (idle.count() != 1) return;  // it looks at the workers from time to time
      asleep.store(true, std::memory_order_seq_cst);  // before the last look; pairs with nudge()
      if (!LooksAgain || idle.count() == 1) sleeper.wait(signal, seen);
      asleep.store(false, std::memory_order_relaxed);
    }
  }
};

}  // namespace
}  // namespace lagom::model

int main() {
  using namespace lagom::model;
  session s;
  s.holds<sleep_and_wake<orders::as_written>>("sleep and wake", 2);
  s.finds<sleep_and_wake<orders::as_written, fault::no_last_look, rl::test_result_deadlock>>("no last look");
  s.finds<sleep_and_wake<orders::as_written, fault::only_the_inbox, rl::test_result_deadlock>>("last look at the inbox only");
  s.finds<sleep_and_wake<orders::as_written, fault::claim_then_push, rl::test_result_deadlock>>("claim, then push");
  s.finds<sleep_and_wake<orders::as_written, fault::ring_then_push, rl::test_result_deadlock>>("notify, then push");
  s.finds<sleep_and_wake<orders::as_written, fault::quiet_end, rl::test_result_deadlock>>("the end is not looked for");
  s.finds<sleep_and_wake<orders::no_total_order, fault::none, rl::test_result_deadlock>>("acquire and release only");
  s.finds<sleep_and_wake<orders::weak_looks, fault::none, rl::test_result_deadlock>>("weak looks");
  s.finds<sleep_and_wake<orders::weak_exchanges, fault::none, rl::test_result_deadlock>>("weak exchanges");
  s.holds<last_fibers<orders::as_written>>("the last fibers", 2);
  s.finds<last_fibers<orders::as_written, end_fault::no_second_look, rl::test_result_deadlock>>("the sleeper looks for nobody");
  s.finds<last_fibers<orders::as_written, end_fault::bare_count, rl::test_result_deadlock>>("a bare count of the ended");
  s.finds<last_fibers<orders::no_total_order, end_fault::none, rl::test_result_deadlock>>("the end, acquire and release only");
  s.holds<monitor_sleeps<orders::as_written, true>>("the monitor sleeps", 2);
  s.finds<monitor_sleeps<orders::as_written, false, rl::test_result_deadlock>>("the monitor does not look again");
  s.finds<monitor_sleeps<orders::weak_looks, true, rl::test_result_deadlock>>("the worker's look at the monitor is weak");
  s.holds<one_claim<orders::as_written>>("one claim", 2);
  s.finds<one_claim<orders::torn, rl::test_result_user_assert_failed>>("torn claims");
  return s.result();
}
