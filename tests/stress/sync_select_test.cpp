// SPDX-License-Identifier: BSL-1.0
// Selects over several channels against plain senders and receivers, time-outs and closes: each item exactly once.
#include <random>

#include <lagom/select.hpp>

#include "unit/runtime/sync_crowd.hpp"

using namespace sync_test;
using status = lagom::channel_status;

namespace {

// Numbered items into two channels, by plain and by selecting senders; out by plain and by selecting receivers.
void through_two_channels(const setting& s, std::size_t capacity, int per_sender) {
  constexpr int senders = 4;
  using channel = lagom::channel<std::unique_ptr<int>>;
  channel a(capacity), b(capacity);
  std::vector<std::atomic<int>> accepted(static_cast<std::size_t>(senders * per_sender)), received(accepted.size());
  std::atomic<int> left{senders};
  crowd c(s);
  c.start_many(senders, [&](int i) {
    std::minstd_rand random(static_cast<unsigned>(i) + 1);
    for (int k = 0; k < per_sender; ++k) {
      const auto number = static_cast<std::size_t>(i * per_sender + k);
      auto value = std::make_unique<int>(static_cast<int>(number));
      bool sent = false;
      auto ok = [&] { sent = true; };
      const auto d = std::chrono::microseconds(random() % 20);
      if (i % 2 == 0) {
        channel& one = random() % 2 ? a : b;
        sent = (random() % 2 ? one.send(std::move(value)) : one.send_for(std::move(value), d)) == status::ok;
      } else if (random() % 2) {
        lagom::select(lagom::on_send(a, std::move(value), ok), lagom::on_send(b, std::move(value), ok));
      } else {
        lagom::select(lagom::on_send(b, std::move(value), ok), lagom::on_timeout(d, [] {}));
      }
      c.expect(sent == (value == nullptr), "sent, and kept; or neither");
      accepted[number] += sent;
    }
    if (left.fetch_sub(1) == 1) {
      a.close();
      b.close();
    }
  });
  c.start_many(4, [&](int i) {
    bool a_ended = false, b_ended = false;
    auto take = [&](std::unique_ptr<int> v) { ++received[static_cast<std::size_t>(*v)]; };
    while (!a_ended || !b_ended) {
      if (i % 2) {
        std::unique_ptr<int> v;
        channel& one = a_ended ? b : a;
        const status how = one.receive_for(v, 20us);
        if (how == status::ok) take(std::move(v));
        if (how == status::closed) (a_ended ? b_ended : a_ended) = true;
        continue;
      }
      auto from = [&](bool& ended) {
        return [&](std::optional<std::unique_ptr<int>> v) { v ? take(std::move(*v)) : void(ended = true); };
      };
      if (a_ended) {
        lagom::select(lagom::on_receive(b, from(b_ended)), lagom::on_timeout(10us, [] {}));
      } else if (b_ended) {
        lagom::select(lagom::on_receive(a, from(a_ended)));
      } else {
        lagom::select(lagom::on_receive(a, from(a_ended)), lagom::on_receive(b, from(b_ended)));
      }
    }
  });
  c.finish();
  bool even = true;
  for (std::size_t i = 0; i < accepted.size(); ++i) even = even && accepted[i] == received[i] && accepted[i] <= 1;
  CHECK(even);
}

}  // namespace

TEST_CASE("select: each item once") {
  for (const setting& s : settings) {
    for (std::size_t capacity : {0u, 1u, 3u}) {
      for (int repeat = 0; repeat < rounds(20); ++repeat) through_two_channels(s, capacity, 300);
    }
  }
}
