// SPDX-License-Identifier: BSL-1.0
// Channels with time-outs, try forms and a close in the middle: what was accepted is received, each item once.
#include <random>

#include "unit/runtime/sync_crowd.hpp"

using namespace sync_test;
using status = lagom::channel_status;

namespace {

// Ended exactly once, wherever it ends up; told apart by its number.
using item = std::unique_ptr<int>;

struct tally {
  explicit tally(int items) : accepted(static_cast<std::size_t>(items)), received(static_cast<std::size_t>(items)) {}
  std::vector<std::atomic<int>> accepted, received;

  bool is_even() const {
    for (std::size_t i = 0; i < accepted.size(); ++i) {
      if (accepted[i] != received[i] || accepted[i] > 1) return false;
    }
    return true;
  }
};

// One of the ways to send, at random. True: accepted.
status send_somehow(lagom::channel<item>& ch, item& value, std::minstd_rand& random) {
  switch (random() % 4) {
    case 0:
      return ch.try_send(std::move(value));
    case 1:
      return ch.send_for(std::move(value), std::chrono::microseconds(random() % 30));
    case 2:
      return ch.send_for(std::move(value), 0s);
    default:
      return ch.send(std::move(value));
  }
}

status receive_somehow(lagom::channel<item>& ch, item& value, std::minstd_rand& random) {
  switch (random() % 4) {
    case 0:
      return ch.try_receive(value);
    case 1:
      return ch.receive_for(value, std::chrono::microseconds(random() % 30));
    case 2: {
      auto received = ch.receive();
      if (!received) return status::closed;
      value = std::move(*received);
      return status::ok;
    }
    default:
      return ch.receive(value);
  }
}

void all_forms(const setting& s, std::size_t capacity, int per_sender) {
  constexpr int senders = 4, receivers = 4;
  lagom::channel<item> ch(capacity);
  tally t(senders * per_sender);
  std::atomic<int> left{senders};
  crowd c(s);
  c.start_many(senders, [&](int i) {
    std::minstd_rand random(static_cast<unsigned>(i) + 1);
    for (int k = 0; k < per_sender; ++k) {
      const auto number = static_cast<std::size_t>(i * per_sender + k);
      auto value = std::make_unique<int>(static_cast<int>(number));
      const bool ok = send_somehow(ch, value, random) == status::ok;
      c.expect(ok == (value == nullptr), "the item left its sender without being accepted, or stayed");
      t.accepted[number] += ok;
    }
    if (left.fetch_sub(1) == 1) ch.close();
  });
  c.start_many(receivers, [&](int i) {
    std::minstd_rand random(static_cast<unsigned>(i) + 77);
    for (;;) {
      item value;
      const status how = receive_somehow(ch, value, random);
      if (how == status::closed) break;
      if (how == status::ok) ++t.received[static_cast<std::size_t>(*value)];
      if (how == status::empty) lagom::this_fiber::yield();
    }
  });
  c.finish();
  CHECK(t.is_even());
}

// Everybody arrives at the moment of the close.
void arrive_at_close(const setting& s, int rounds_) {
  crowd c(s);
  constexpr int arriving = 16;
  struct round {
    lagom::channel<item> ch{2};
    lagom::event go;
    std::atomic<int> closed{0}, accepted{0}, received{0};
    lagom::wait_group done{arriving + 1};
  };
  std::vector<std::unique_ptr<round>> all;
  for (int i = 0; i < rounds_; ++i) all.push_back(std::make_unique<round>());
  c.start_many(arriving, [&](int i) {
    for (auto& r : all) {
      r->go.wait();
      if (i % 2) {
        auto value = std::make_unique<int>(i);
        const status how = r->ch.send(std::move(value));
        r->accepted += how == status::ok;
        r->closed += how == status::closed;
      } else {
        item value;
        const status how = r->ch.receive(value);
        r->received += how == status::ok;
        r->closed += how == status::closed;
      }
      r->done.done();
      r->done.wait();
    }
  });
  c.start([&] {
    for (auto& r : all) {
      r->go.set();
      r->ch.close();
      r->done.done();
      r->done.wait();
      c.expect(r->accepted + r->received + r->closed == arriving, "somebody got neither closed nor ok");
      item rest;
      while (r->ch.try_receive(rest) == status::ok) ++r->received;
      c.expect(r->accepted == r->received, "accepted and received differ");
    }
  });
  c.finish();
}

}  // namespace

TEST_CASE("channel: all forms at once, then closed") {
  for (const setting& s : settings) {
    for (std::size_t capacity : {0u, 1u, 2u, 16u}) {
      for (int repeat = 0; repeat < rounds(20); ++repeat) all_forms(s, capacity, 500);
    }
  }
}

TEST_CASE("channel: arriving at the moment of the close") {
  for (const setting& s : settings) arrive_at_close(s, rounds(500));
}
