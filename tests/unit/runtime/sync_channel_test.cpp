// SPDX-License-Identifier: BSL-1.0
#include <lagom/channel.hpp>

#include <memory>
#include <stdexcept>
#include <string>

#include "sync_crowd.hpp"

using namespace sync_test;
using lagom::channel;
using status = lagom::channel_status;

namespace {

static_assert(!std::is_copy_constructible_v<channel<int>> && !std::is_move_constructible_v<channel<int>>);
static_assert(std::input_iterator<channel<int>::iterator>);

// Counts itself, so that leaks and double ends show.
struct counted {
  static inline std::atomic<int> alive{0};
  int value = 0;
  explicit counted(int v) : value(v) { ++alive; }
  counted(counted&& other) noexcept : value(std::exchange(other.value, -1)) { ++alive; }
  counted& operator=(counted&& other) noexcept {
    value = std::exchange(other.value, -1);
    return *this;
  }
  ~counted() { --alive; }
};

// A copy that may throw and no move: the kind that is kept on the heap.
struct only_copied {
  std::string text;
  explicit only_copied(std::string t) : text(std::move(t)) {}
  only_copied(const only_copied& other) : text(other.text) {}
  only_copied& operator=(const only_copied&) = default;
  ~only_copied() {}
};
static_assert(!std::is_nothrow_move_constructible_v<only_copied>);

// Two times `count` items from two senders to two receivers, whatever the capacity: each exactly once, each sender's in
// order.
void pass_numbers(const setting& s, std::size_t capacity, int count) {
  channel<int> ch(capacity);
  std::vector<std::atomic<int>> received(static_cast<std::size_t>(2 * count));
  std::atomic<int> senders{2};
  crowd c(s);
  c.start_many(2, [&](int sender) {
    for (int i = 0; i < count; ++i) c.expect(ch.send(sender * count + i) == status::ok, "send");
    if (senders.fetch_sub(1) == 1) ch.close();
  });
  c.start_many(2, [&](int) {
    int last[2] = {-1, -1};
    int n = 0;
    status end;
    while ((end = ch.receive(n)) == status::ok) {
      received[static_cast<std::size_t>(n)].fetch_add(1);
      int& previous = last[n / count];
      c.expect(n > previous, "order of one sender's items");
      previous = n;
    }
    c.expect(end == status::closed, "end");
  });
  c.finish();
  for (auto& n : received) REQUIRE(n == 1);
}

}  // namespace

TEST_CASE("channel: every item once and in order, at any capacity") {
  for (const setting& s : settings) {
    for (std::size_t capacity : {0u, 1u, 2u, 3u, 64u}) pass_numbers(s, capacity, rounds(3000));
  }
}

TEST_CASE("channel: try forms") {
  channel<int> ch(2);
  int n = 0;
  CHECK(ch.try_receive(n) == status::empty);
  CHECK(ch.try_send(1) == status::ok);
  CHECK(ch.try_send(2) == status::ok);
  CHECK(ch.try_send(3) == status::full);
  CHECK(ch.size() == 2);
  CHECK(ch.capacity() == 2);
  CHECK(ch.try_receive(n) == status::ok);
  CHECK(n == 1);
  ch.close();
  CHECK(ch.is_closed());
  CHECK(ch.try_send(4) == status::closed);
  CHECK(ch.send(4) == status::closed);
  CHECK(ch.try_receive(n) == status::ok);  // drains before it says closed
  CHECK(n == 2);
  CHECK(ch.try_receive(n) == status::closed);
  CHECK(ch.receive(n) == status::closed);
  CHECK(ch.receive() == std::nullopt);
  ch.close();
  CHECK(n == 2);
}

TEST_CASE("channel: rendezvous needs a partner") {
  for (const setting& s : settings) {
    channel<int> ch(0);
    int n = 0;
    CHECK(ch.try_send(1) == status::full);
    CHECK(ch.try_receive(n) == status::empty);
    CHECK(ch.send_for(1, 1ms) == status::timeout);
    std::atomic<bool> sent{false};
    crowd c(s);
    c.start([&] {
      ch.send(7);
      sent = true;
    });
    c.start([&] {
      let_others_run();
      c.expect(!sent, "send has not waited");
      c.expect(ch.receive() == 7, "value");
    });
    c.finish();
    CHECK(sent);
  }
}

TEST_CASE("channel: the time, and the item stays with its sender") {
  for (const setting& s : settings) {
    channel<std::unique_ptr<int>> full(1), empty(1);
    full.send(std::make_unique<int>(0));
    crowd c(s);
    c.start_many(2, [&](int) {
      auto item = std::make_unique<int>(1);
      const auto begin = clock::now();
      c.expect(full.send_for(std::move(item), 2ms) == status::timeout, "full");
      c.expect(clock::now() - begin >= 2ms, "too early");
      c.expect(full.send_until(std::move(item), begin) == status::timeout, "full, past");
      c.expect(full.send_for(std::move(item), 0s) == status::timeout, "full, zero");
      c.expect(full.send_for(std::move(item), std::chrono::hours::min()) == status::timeout, "full, negative");
      c.expect(full.try_send(std::move(item)) == status::full, "full, try");
      c.expect(item && *item == 1, "the item was taken");
      const auto second = clock::now();
      c.expect(empty.receive_for(item, 2ms) == status::timeout, "empty");
      c.expect(clock::now() - second >= 2ms, "too early");
      c.expect(empty.receive_until(item, begin) == status::timeout, "empty, past");
      c.expect(empty.receive_for(item, -1s) == status::timeout, "empty, negative");
      c.expect(item && *item == 1, "out was changed");
    });
    c.finish();
    CHECK(full.size() == 1);
    CHECK(empty.size() == 0);
  }
}

TEST_CASE("channel: close wakes all who wait; senders keep their items") {
  for (const setting& s : settings) {
    channel<std::unique_ptr<int>> full(1), empty(0);
    full.send(std::make_unique<int>(0));
    std::atomic<int> closed{0};
    crowd c(s);
    c.start_many(40, [&](int i) {
      if (i % 2) {
        auto item = std::make_unique<int>(i);
        c.expect(full.send(std::move(item)) == status::closed, "send");
        c.expect(item && *item == i, "the item was taken");
      } else {
        c.expect(empty.receive() == std::nullopt, "receive");
      }
      ++closed;
    });
    c.start([&] {
      let_others_run();
      full.close();
      empty.close();
    });
    c.finish();
    CHECK(closed == 40);
    CHECK(full.receive().has_value());
    CHECK_FALSE(full.receive().has_value());
  }
}

TEST_CASE("channel: range-for ends when closed and drained") {
  for (const setting& s : settings) {
    channel<std::unique_ptr<int>> ch(3);
    long sum = 0;
    crowd c(s);
    c.start([&] {
      for (int i = 0; i < 1000; ++i) ch.send(std::make_unique<int>(i));
      ch.close();
    });
    c.start([&] {
      for (auto& item : ch) sum += *item;
    });
    c.finish();
    CHECK(sum == 499500);
  }
}

TEST_CASE("channel: items are neither leaked nor ended twice") {
  for (const setting& s : settings) {
    {
      channel<counted> ch(2);
      crowd c(s);
      c.start_many(4, [&](int i) {
        for (int k = 0; k < 200; ++k) {
          counted item(k);
          if (i % 2) {
            const status end = ch.send_for(std::move(item), std::chrono::microseconds(k % 20));
            c.expect((end == status::ok) == (item.value == -1), "moved from only if ok");
          } else {
            ch.receive_for(item, std::chrono::microseconds(k % 20));
          }
        }
      });
      c.finish();
    }  // with items left in it
    CHECK(counted::alive == 0);
  }
}

TEST_CASE("channel: a type whose move may throw, and an over-aligned one") {
  for (const setting& s : settings) {
    channel<only_copied> texts(1);
    struct alignas(128) wide {
      int value;
    };
    channel<wide> wides(2);
    crowd c(s);
    c.start([&] {
      for (int i = 0; i < 100; ++i) {
        const only_copied item("a text that does not fit into the string itself " + std::to_string(i));
        texts.send(item);
        wides.send(wide{i});
      }
      texts.close();
    });
    c.start([&] {
      int n = 0;
      for (only_copied& item : texts) {
        c.expect(item.text.ends_with(" " + std::to_string(n)), "text");
        wide w{};
        c.expect(wides.receive(w) == status::ok && w.value == n, "wide");
        ++n;
      }
      c.expect(n == 100, "count");
    });
    c.finish();
  }
}

TEST_CASE("channel<void>") {
  for (const setting& s : settings) {
    channel<void> ch(3);
    int received = 0;
    crowd c(s);
    c.start([&] {
      for (int i = 0; i < 1000; ++i) c.expect(ch.send() == status::ok, "send");
      ch.close();
      c.expect(ch.try_send() == status::closed, "closed");
    });
    c.start([&] {
      while (ch.receive()) ++received;
      c.expect(ch.receive() == status::closed && ch.try_receive() == status::closed, "closed");
    });
    c.finish();
    CHECK(received == 1000);
  }
  channel<void> ch(1);
  CHECK(ch.try_receive() == status::empty);
  CHECK(ch.receive_for(1ms) == status::timeout);
  CHECK(ch.send_for(1ms) == status::ok);
  CHECK(ch.send_for(1ms) == status::timeout);
  CHECK(ch.size() == 1);
}

TEST_CASE("channel: what a stop of the fiber does") {
  for (unsigned workers : {1u, 2u}) {
    lagom::runtime_options options;
    options.workers = workers;
    lagom::runtime rt(options);
    channel<std::unique_ptr<int>> empty(1), full(1);
    full.send(std::make_unique<int>(0));
    std::atomic<int> waiting{0}, right{0};
    std::vector<lagom::fiber> fibers;
    fibers.push_back(rt.spawn([&] {
      ++waiting;
      auto item = std::make_unique<int>(1);
      right += full.send(std::move(item)) == status::stopped && item != nullptr;
      right += full.send_for(std::move(item), 1h) == status::stopped && item != nullptr;
      right += full.receive().has_value();  // what needs no waiting is done even now
      right += full.send(std::move(item)) == status::ok;
    }));
    fibers.push_back(rt.spawn([&] {
      ++waiting;
      std::unique_ptr<int> item;
      right += empty.receive(item) == status::stopped;
      right += empty.receive_for(item, 1h) == status::stopped;
    }));
    while (waiting != 2) std::this_thread::yield();
    for (lagom::fiber& f : fibers) f.request_stop();
    for (lagom::fiber& f : fibers) f.join();
    CHECK(right == 6);

    lagom::channel<int> other(1);
    std::atomic<bool> thrown{false};
    lagom::fiber f = rt.spawn([&] {
      try {
        other.receive();
      } catch (const std::system_error& e) {
        thrown = e.code() == lagom::errc::stopped;
      }
    });
    f.request_stop();
    f.join();
    CHECK(thrown);
  }
}

TEST_CASE("channel: a capacity that cannot be") {
  auto make = [](std::size_t capacity) { channel<int> ch(capacity); };
  CHECK_THROWS_AS(make(std::size_t{1} << 32), std::length_error);
  CHECK_THROWS_AS(make(std::numeric_limits<std::size_t>::max()), std::length_error);
}
