// SPDX-License-Identifier: BSL-1.0
// Groups of senders and receivers, as in "perf bench sched messaging": each sender sends a message to each receiver of its
// group, many times. Many short waits, which is where fibers are cheaper than threads. Prints messages per second.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include <lagom/lagom.hpp>

namespace {

constexpr int groups = 4, members = 20, loops = 50;
constexpr std::size_t room = 16;  // messages that may lie in a channel

struct message {
  int sender;
  int loop;
};

using inbox = lagom::channel<message>;

void send_to_all(std::vector<std::unique_ptr<inbox>>& receivers, int me) {
  for (int loop = 0; loop < loops; ++loop) {
    for (const auto& receiver : receivers) receiver->send({me, loop});
  }
}

// Counts what arrives until every sender has sent its share; returns what arrived out of order.
long receive_all(inbox& mine) {
  long wrong = 0;
  std::vector<int> next(members, 0);
  for (int i = 0; i < members * loops; ++i) {
    message m{};
    if (mine.receive(m) != lagom::channel_status::ok) return wrong + 1;
    if (next[static_cast<std::size_t>(m.sender)]++ != m.loop) ++wrong;  // those of one sender arrive in order
  }
  return wrong;
}

void run_group(std::atomic<long>& received, std::atomic<long>& wrong) {
  std::vector<std::unique_ptr<inbox>> inboxes;
  for (int i = 0; i < members; ++i) inboxes.push_back(std::make_unique<inbox>(room));
  std::vector<lagom::fiber> fibers;
  for (int i = 0; i < members; ++i) {
    fibers.push_back(lagom::spawn([&, i] {
      wrong += receive_all(*inboxes[static_cast<std::size_t>(i)]);
      received += members * loops;
    }));
    fibers.push_back(lagom::spawn([&, i] { send_to_all(inboxes, i); }));
  }
  for (lagom::fiber& f : fibers) f.join();
}

}  // namespace

int main() {
  std::atomic<long> received{0}, wrong{0};
  lagom::runtime runtime;
  const auto begin = std::chrono::steady_clock::now();
  runtime.run([&] {
    std::vector<lagom::fiber> fibers;
    for (int i = 0; i < groups; ++i) fibers.push_back(lagom::spawn([&] { run_group(received, wrong); }));
    for (lagom::fiber& f : fibers) f.join();
  });
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;

  constexpr long expected = long{groups} * members * members * loops;
  std::printf("%d groups of %d senders and %d receivers: %ld messages in %.3f s, %.1f million per second\n", groups,
              members, members, received.load(), spent.count(), static_cast<double>(received.load()) / spent.count() / 1e6);
  return received == expected && wrong == 0 ? 0 : 1;
}
