// SPDX-License-Identifier: BSL-1.0
// runtime/worker/inbox.hpp itself, under Relacy: two senders; the owner and a thief, who take under the queue lock.
#include "checker.hpp"
#include "worker/inbox.hpp"

namespace lagom::model {
namespace {

constexpr int senders = 2, letters_each = 2;

struct letter {
  plain<letter*> next{nullptr};
  plain<int> content{0};  // what the sender wrote before the push; 0: nothing
};

template <orders Orders, rl::test_result_e Verdict = rl::test_result_success>
struct mail : rl::test_suite<mail<Orders, Verdict>, senders + 2, Verdict> {
  lagom::detail::inbox<letter, memory<Orders>::template atomic> box;
  lock queue_lock;
  letter letters[senders][letters_each];
  // Guarded by queue_lock.
  plain<int> taken[senders];

  void thread(unsigned index) {
    if (index < senders) {
      for (int i = 0; i < letters_each; ++i) {
        letters[index][i].content = i + 1;
        box.push(letters[index][i]);
      }
      return;
    }
    // The owner, and a thief who only tries.
    for (int i = 0; i < 2; ++i) {
      if (box.seems_empty()) continue;
      if (index == senders) {
        queue_lock.take();
      } else if (!queue_lock.try_take()) {
        continue;
      }
      read_all();
      queue_lock.give();
    }
  }

  void read_all() {
    for (letter* l = box.take_all(); l;) {
      letter* next = l->next;
      l->next = nullptr;
      const int content = l->content;
      const int sender = l >= letters[1];
      // Once each, in the order in which its sender wrote them.
      RL_ASSERT(content == taken[sender] + 1);
      taken[sender] = content;
      l = next;
    }
  }

  void after() {
    read_all();
    RL_ASSERT(box.is_empty());
    for (auto& n : taken) RL_ASSERT(n == letters_each);
  }
};

}  // namespace
}  // namespace lagom::model

int main() {
  using namespace lagom::model;
  session s;
  s.holds<mail<orders::as_written>>("inbox", 2);
  s.finds<mail<orders::relaxed, rl::test_result_data_race>>("inbox that publishes nothing");
  s.finds<mail<orders::torn, rl::test_result_user_assert_failed>>("inbox with torn exchanges");
  return s.result();
}
