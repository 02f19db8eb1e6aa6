// SPDX-License-Identifier: BSL-1.0
#include <lagom/select.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <memory>

#include "sync_crowd.hpp"

using namespace sync_test;
using lagom::channel;
using lagom::on_receive;
using lagom::on_send;
using lagom::on_stop;
using lagom::on_timeout;
using lagom::otherwise;
using lagom::select;
using status = lagom::channel_status;

namespace {

struct pipe_pair {
  int read_end = -1, write_end = -1;
  pipe_pair() {
    int ends[2];
    REQUIRE(::pipe2(ends, O_NONBLOCK | O_CLOEXEC) == 0);
    read_end = ends[0];
    write_end = ends[1];
  }
  ~pipe_pair() {
    ::close(read_end);
    ::close(write_end);
  }
};

}  // namespace

TEST_CASE("select: takes what is ready, returns its index, leaves the rest") {
  channel<int> a(1), b(1), full(1);
  full.send(0);
  b.send(5);
  int got = 0;
  CHECK(select(on_receive(a, [&](int) { got = -1; }), on_receive(b, [&](int v) { got = v; }),
               on_send(full, 1, [&] { got = -2; })) == 1);
  CHECK(got == 5);
  bool sent = false;
  CHECK(select(on_receive(b, [](int) {}), on_send(a, 9, [&] { sent = true; })) == 1);
  CHECK(sent);
  CHECK(a.receive() == 9);
  CHECK(full.size() == 1);
}

TEST_CASE("select: otherwise and time-outs") {
  for (const setting& s : settings) {
    channel<int> empty(1);
    crowd c(s);
    c.start([&] {
      bool called = false;
      c.expect(select(on_receive(empty, [](int) {}), otherwise([&] { called = true; })) == 1 && called, "otherwise");
      const auto begin = clock::now();
      c.expect(select(on_receive(empty, [](int) {}), on_timeout(1h, [] {}), on_timeout(2ms, [] {})) == 2, "time");
      c.expect(clock::now() - begin >= 2ms, "too early");
      c.expect(select(on_timeout(-1s, [] {}), on_receive(empty, [](int) {})) == 0, "negative");
      c.expect(select(on_timeout(begin, [] {}), on_receive(empty, [](int) {})) == 0, "past");
      empty.send(1);
      c.expect(select(on_timeout(-1s, [] {}), on_receive(empty, [](int) {})) == 1,
               "what is ready goes before the time");
      c.expect(select(on_timeout(1ms, [] {})) == 0, "only a time");
    });
    c.finish();
  }
}

TEST_CASE("select: waits for whichever comes first") {
  for (const setting& s : settings) {
    channel<std::unique_ptr<int>> a(0), b(2);
    channel<void> signal(0);
    channel<int> out(0);
    int sum = 0, signals = 0, sent = 0;
    crowd c(s);
    c.start([&] {
      for (int i = 0; i < 80; ++i) {
        select(on_receive(a, [&](std::unique_ptr<int> v) { sum += *v; }),
               on_receive(b, [&](std::unique_ptr<int> v) { sum += *v; }), on_receive(signal, [&] { ++signals; }),
               on_send(out, i, [&] { ++sent; }));
      }
    });
    c.start([&] {
      for (int i = 0; i < 20; ++i) a.send(std::make_unique<int>(1));
    });
    c.start([&] {
      for (int i = 0; i < 20; ++i) b.send(std::make_unique<int>(100));
    });
    c.start([&] {
      for (int i = 0; i < 20; ++i) signal.send();
    });
    c.start([&] {
      for (int i = 0; i < 20; ++i) out.receive();
    });
    c.finish();
    CHECK(sum == 2020);
    CHECK(signals == 20);
    CHECK(sent == 20);
  }
}

TEST_CASE("select: a send that loses keeps its value") {
  for (const setting& s : settings) {
    channel<std::unique_ptr<int>> full(1);
    channel<int> other(1);
    full.send(std::make_unique<int>(0));
    crowd c(s);
    c.start([&] {
      auto value = std::make_unique<int>(3);
      c.expect(select(on_send(full, std::move(value), [] {}), on_receive(other, [](int) {})) == 1, "index");
      c.expect(value && *value == 3, "the value is gone");
      c.expect(select(on_send(full, std::move(value), [] {}), on_timeout(1ms, [] {})) == 1, "time");
      c.expect(value && *value == 3, "the value is gone");
      full.receive();
      c.expect(select(on_send(full, std::move(value), [] {}), on_timeout(1h, [] {})) == 0, "sent");
      c.expect(!value, "the value is still there");
    });
    c.start([&] {
      let_others_run();
      other.send(1);
    });
    c.finish();
    CHECK(*full.receive().value() == 3);
  }
}

TEST_CASE("select: a closed channel is ready") {
  for (const setting& s : settings) {
    channel<int> in(1), never(1), out(0);
    channel<void> signal(0);
    crowd c(s);
    c.start([&] {
      bool ended = false;
      c.expect(select(on_receive(in, [&](std::optional<int> v) { ended = !v; }), on_receive(never, [](int) {})) == 0 &&
                   ended,
               "closed while waiting");
      ended = false;
      c.expect(select(on_receive(in, [&](std::optional<int> v) { ended = !v; })) == 0 && ended, "closed before");
      c.expect(select(on_receive(in, [&](int) { ended = false; })) == 0 && ended, "a handler for items is not called");
      status how = status::ok;
      c.expect(select(on_send(out, 1, [&](status st) { how = st; })) == 0 && how == status::closed, "send");
      how = status::ok;
      c.expect(select(on_receive(signal, [&](status st) { how = st; })) == 0 && how == status::closed, "void");
    });
    c.start([&] {
      let_others_run();
      out.close();
      signal.close();
      in.close();
    });
    c.finish();
  }
}

TEST_CASE("select: two that are always ready are taken equally often") {
  for (const setting& s : settings) {
    channel<int> a(4), b(4);
    int from_a = 0, from_b = 0;
    crowd c(s);
    c.start([&] {
      for (int i = 0; i < 4000; ++i) {
        while (a.try_send(0) == status::ok) {
        }
        while (b.try_send(0) == status::ok) {
        }
        select(on_receive(a, [&](int) { ++from_a; }), on_receive(b, [&](int) { ++from_b; }));
      }
    });
    c.finish();
    CHECK(from_a > 1400);
    CHECK(from_b > 1400);
  }
}

TEST_CASE("select: two selects meet, in both directions over the same channels") {
  for (const setting& s : settings) {
    channel<int> a(0), b(0);
    std::atomic<int> sent{0}, received{0};
    const int count = rounds(2000);
    crowd c(s);
    // Each of them sends or receives, as it comes; the channels are the same, in different order.
    c.start_many(2, [&](int i) {
      for (int k = 0; k < count; ++k) {
        if (i == 0) {
          select(on_send(a, 1, [&] { ++sent; }), on_receive(b, [&](int) { ++received; }));
        } else {
          select(on_send(b, 1, [&] { ++sent; }), on_receive(a, [&](int) { ++received; }));
        }
      }
    });
    c.finish();
    CHECK(sent == count);
    CHECK(received == count);
  }
}

TEST_CASE("select: the same channel twice") {
  channel<int> ch(1);
  int received = 0;
  for (int i = 0; i < 10; ++i) {
    select(on_send(ch, 1, [] {}), on_receive(ch, [&](int v) { received += v; }),
           on_receive(ch, [&](int v) { received += v; }));
  }
  CHECK(received == 5);
}

TEST_CASE("select: a stop token, and a handler that throws or selects again") {
  for (const setting& s : settings) {
    channel<int> never(1), ch(1);
    std::stop_source source;
    ch.send(1);
    crowd c(s);
    c.start([&] {
      bool called = false;
      c.expect(select(on_receive(never, [](int) {}), on_stop(source.get_token(), [&] { called = true; })) == 1,
               "index");
      c.expect(called, "handler");
      c.expect(select(on_stop(source.get_token(), [] {}), on_receive(never, [](int) {})) == 0, "stopped before");
      try {
        select(on_receive(ch, [](int) { throw std::runtime_error("handler"); }));
        c.expect(false, "no exception");
      } catch (const std::runtime_error&) {
      }
      ch.send(2);
      int inner = 0;
      select(on_receive(ch, [&](int) {
        ch.send(3);
        select(on_receive(ch, [&](int v) { inner = v; }));
      }));
      c.expect(inner == 3, "inner");
    });
    c.start([&] {
      let_others_run();
      source.request_stop();
    });
    c.finish();
  }
}

TEST_CASE("select: a stop of the fiber") {
  lagom::runtime_options options;
  options.workers = 2;
  lagom::runtime rt(options);
  channel<int> never(1);
  std::atomic<bool> thrown{false};
  lagom::fiber f = rt.spawn([&] {
    try {
      select(on_receive(never, [](int) {}), on_timeout(1h, [] {}));
    } catch (const std::system_error& e) {
      thrown = e.code() == lagom::errc::stopped;
    }
  });
  std::this_thread::sleep_for(1ms);
  f.request_stop();
  f.join();
  CHECK(thrown);
  never.send(1);
  CHECK(never.size() == 1);
}

TEST_CASE("select: descriptors") {
  for (unsigned workers : {1u, 2u}) {
    lagom::runtime_options options;
    options.workers = workers;
    lagom::runtime rt(options);
    pipe_pair p;
    rt.run([&] {
      channel<int> ch(1);
      int which = -1;
      CHECK(select(on_receive(ch, [](int) {}), lagom::on_writable(p.write_end, [&] { which = 1; })) == 1);
      CHECK(which == 1);
      CHECK(select(lagom::on_readable(p.read_end, [] {}), otherwise([] {})) == 1);
      CHECK(select(lagom::on_readable(p.read_end, [] {}), on_timeout(1ms, [] {})) == 1);
      lagom::fiber writer = lagom::spawn([&] {
        nap(1ms);
        CHECK(::write(p.write_end, "x", 1) == 1);
      });
      std::error_code how = std::make_error_code(std::errc::io_error);
      CHECK(select(on_receive(ch, [](int) {}), lagom::on_readable(p.read_end, [&](std::error_code ec) { how = ec; })) ==
            1);
      CHECK_FALSE(how);
      writer.join();
      char byte = 0;
      CHECK(::read(p.read_end, &byte, 1) == 1);
      // The channel wins while the descriptor is waited for.
      lagom::fiber sender = lagom::spawn([&] {
        nap(1ms);
        ch.send(4);
      });
      CHECK(select(lagom::on_readable(p.read_end, [] {}), on_receive(ch, [&](int v) { which = v; })) == 1);
      CHECK(which == 4);
      sender.join();
      CHECK(select(lagom::on_readable(-1, [&](std::error_code ec) { how = ec; })) == 0);
      CHECK(how == std::errc::bad_file_descriptor);
    });
  }
}
