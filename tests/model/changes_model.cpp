// SPDX-License-Identifier: BSL-1.0
// A change of attributes on its way to a fiber's owner, under Relacy: runtime/worker/inbox.hpp and fiber/park_word.hpp
// themselves; around them, step by step, leave_change() (worker/attributes.cpp), pass_on(), take_changes(), take_change(),
// arrive() (changes.cpp), join() and settle_parked() (switch.cpp), rob() (steal.cpp) and make_runnable() (park.cpp). That a
// worker with a notice in its list makes a step sooner or later is idle_workers_model's; here it is made when all have ended,
// and then the fiber must have what it was told last.
#include "checker.hpp"
#include "fiber/park_word.hpp"
#include "worker/inbox.hpp"

namespace lagom::model {
namespace {

using lagom::detail::stoppable;
using lagom::detail::wake;

enum class fault {
  none,
  look_then_join,   // join() looks at the bit before it has written home
  no_passing_on,    // notices of fibers that are elsewhere are dropped
  no_second_look,   // a fiber that moves while its notice is in hand is forgotten
  any_home,         // on_rq is read without a look at home
  sleeper_by_home,  // a parked fiber's home is not told, though it was not parked yet
};

constexpr int nobody = -1;

struct notice {
  plain<notice*> next{nullptr};
};

// One fiber, two workers, one who asks twice.
template <orders Orders, fault Fault>
struct house {
  template <class T>
  using atomic = atomic_of<T, Orders>;
  using park_word = lagom::detail::park_word_of<memory<Orders>::template atomic>;

  struct worker {
    lock queue;
    lagom::detail::inbox<notice, memory<Orders>::template atomic> notices;
  };
  worker workers[2];

  atomic<int> due{0}, home{0};
  park_word word;
  notice letter;
  lock update;
  plain<int> wanted{0}, sent_to{nobody};  // guarded by `update`
  plain<bool> on_rq{true};                // guarded by the queue lock of its home
  plain<int> has{0};                      // the owner's

  // leave_change() and accept()
  void ask(int value) {
    int to = nobody;
    {
      const hold guard(update);
      wanted = value;
      due.fetch_or(1);
      if (Fault != fault::sleeper_by_home ? word.is_parked() : word.epoch() != 0) return;
      if (sent_to != nobody) return;  // whoever has the notice is woken
      to = home.load();
      sent_to = to;
    }
    workers[to].notices.push(letter);
  }

  // join() of a worker whose queue lock is held
  void join(int w) {
    const int early = Fault == fault::look_then_join ? due.load() : 0;
    if (home.load(std::memory_order_relaxed) != w) home.exchange(w);
    if (Fault == fault::look_then_join ? early != 0 : due.load() != 0) {
      const hold guard(update);
      if (due.load() != 0) apply();
    }
    on_rq = true;
  }
  void apply() {
    has = wanted.get();
    due.fetch_and(0, std::memory_order_relaxed);
  }

  // take_changes() of a worker's own thread. One notice is all there is.
  void take_changes(int w) {
    notice* n = workers[w].notices.take_all();
    while (n && is_ours(w)) {
      const hold queue(workers[w].queue);
      const hold guard(update);
      const bool here = Fault == fault::any_home || home.load() == w;
      if (due.load() != 0 && here && on_rq) apply();
      if (Fault == fault::no_second_look || due.load() == 0 || home.load() == w) {
        sent_to = nobody;
        return;
      }
    }
  }
  // pass_on()
  bool is_ours(int w) {
    int to = nobody;
    {
      const hold guard(update);
      if (due.load() != 0) to = home.load();
      if (Fault == fault::any_home && to != nobody) to = w;
      if (Fault == fault::no_passing_on && to != w) to = nobody;
      if (to != w) sent_to = to;
    }
    if (to == w) return true;
    if (to != nobody) workers[to].notices.push(letter);
    return false;
  }

  // rob() and the join of the loot
  void steal(int from, int to) {
    {
      const hold queue(workers[from].queue);
      // Its own queue first: nobody else may look at on_rq without `update`.
      if (home.load(std::memory_order_relaxed) != from || !on_rq) return;
      on_rq = false;
    }
    const hold queue(workers[to].queue);
    join(to);
  }

  void settle_accounts(int last) {
    for (int i = 0; i < 4; ++i) take_changes(i % 2);
    RL_ASSERT(has == last);
    RL_ASSERT(due.load() == 0);
    RL_ASSERT(sent_to == nobody);
  }
};

// Queued on the first worker, stolen by the second, and back.
template <orders Orders, fault Fault = fault::none, rl::test_result_e Verdict = rl::test_result_success>
struct stolen : rl::test_suite<stolen<Orders, Fault, Verdict>, 3, Verdict> {
  house<Orders, Fault> it;

  void thread(unsigned index) {
    switch (index) {
      case 0:
        it.take_changes(0);
        it.steal(1, 0);
        return it.take_changes(0);
      case 1:
        it.steal(0, 1);
        return it.take_changes(1);
      default:
        it.ask(1);
        return it.ask(2);
    }
  }
  void after() { it.settle_accounts(2); }
};

// Parks on the first worker, is woken by the second, where it then is.
template <orders Orders, fault Fault = fault::none, rl::test_result_e Verdict = rl::test_result_success>
struct woken : rl::test_suite<woken<Orders, Fault, Verdict>, 3, Verdict> {
  house<Orders, Fault> it;
  std::uint64_t epoch = 0;

  void before() { epoch = it.word.arm(); }
  void thread(unsigned index) {
    switch (index) {
      case 0: {
        it.take_changes(0);
        {
          const hold queue(it.workers[0].queue);
          it.on_rq = false;
        }
        if (!it.word.settle(epoch, stoppable::no)) {  // used on the way: it goes on here
          const hold queue(it.workers[0].queue);
          it.join(0);
        }
        return it.take_changes(0);
      }
      case 1:
        if (it.word.use(epoch, wake::notified) == house<Orders, Fault>::park_word::found::parked) {
          const hold queue(it.workers[1].queue);
          it.join(1);
        }
        return it.take_changes(1);
      default:
        it.ask(1);
        return it.ask(2);
    }
  }
  void after() { it.settle_accounts(2); }
};

}  // namespace
}  // namespace lagom::model

int main() {
  using namespace lagom::model;
  session s;
  s.holds<stolen<orders::as_written>>("stolen", 2);
  s.holds<woken<orders::as_written>>("woken", 2);
  constexpr auto lost = rl::test_result_user_assert_failed;
  constexpr auto race = rl::test_result_data_race;  // two workers look whether it is queued
  s.finds<stolen<orders::as_written, fault::look_then_join, race>>("look, then join");
  s.finds<stolen<orders::as_written, fault::no_passing_on, lost>>("not passed on");
  s.finds<stolen<orders::as_written, fault::no_second_look, lost>>("no second look");
  s.finds<stolen<orders::as_written, fault::any_home, race>>("on_rq of anybody's");
  s.finds<woken<orders::as_written, fault::sleeper_by_home, lost>>("taken for parked too early");
  s.finds<stolen<orders::no_total_order, fault::none, race>>("acquire and release only");
  s.finds<woken<orders::no_total_order, fault::none, lost>>("the sleeper, acquire and release only");
  return s.result();
}
