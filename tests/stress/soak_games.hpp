// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include <lagom/lagom.hpp>

// The games of the soak: each makes its players wait on one primitive, again and again, and knows what must come out.
namespace soak {

using namespace std::chrono_literals;

inline constexpr unsigned players = 4;  // of a table; games are played in pairs or by all

/// What is wrong ends the program: the state in which it went wrong is what one wants to see.
inline void expect(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "soak: %s\n", what);
  std::abort();
}

/// Four fibers that sit together. One game after the other: when all have arrived, the last one draws the next.
class table {
 public:
  table(std::uint64_t seed, const std::atomic<bool>& over) : over_(over), random_(seed) { draw(); }

  /// The body of player `me`.
  void play(unsigned me) {
    while (!ended_) {
      const game& g = games[next_];
      (this->*g.play)(me, turns_);
      between_.arrive_and_wait();
      if (me == 0) (this->*g.check)(turns_);
      between_.arrive_and_wait();
      if (me == 0) draw();
      between_.arrive_and_wait();
    }
  }

  static constexpr std::size_t kinds() { return std::size(games); }
  static const char* name_of(std::size_t kind) { return games[kind].name; }
  std::uint64_t games_of(std::size_t kind) const { return played_[kind]; }

 private:
  struct game {
    const char* name;
    void (table::*play)(unsigned me, unsigned turns);
    void (table::*check)(unsigned turns);
    unsigned turns;  // at most; those that take time or threads have few
  };

  void draw() {
    ended_ = over_.load(std::memory_order_relaxed);  // any later game will do
    if (ended_) return;
    next_ = random_() % std::size(games);
    turns_ = 1 + static_cast<unsigned>(random_() % games[next_].turns);
    ++played_[next_];
    sum_ = 0;
  }

  // ---- In pairs: 0 with 1, 2 with 3.
  void semaphores(unsigned me, unsigned turns) {
    auto& mine = semaphores_[me];
    auto& other = semaphores_[me ^ 1];
    for (unsigned i = 0; i < turns; ++i) {
      if (me % 2) mine.acquire();
      other.release();
      if (me % 2 == 0) mine.acquire();
    }
  }
  void no_semaphore_is_left(unsigned) {
    for (auto& s : semaphores_) expect(!s.try_acquire(), "semaphore: a permit too many");
  }

  void events(unsigned me, unsigned turns) {
    auto& mine = events_[me];
    auto& other = events_[me ^ 1];
    for (unsigned i = 0; i < turns; ++i) {
      if (me % 2) mine.wait();
      other.set();
      if (me % 2 == 0) mine.wait();
    }
  }
  void no_event_is_set(unsigned) {
    for (auto& e : events_) expect(!e.try_wait(), "event: still set");
  }

  // A rendezvous between 0 and 1, a buffer between 2 and 3.
  void channels(unsigned me, unsigned turns) {
    auto& ch = me < 2 ? rendezvous_ : buffer_;
    for (unsigned i = 0; i < turns; ++i) {
      if (me % 2) {
        unsigned got = 0;
        expect(ch.receive(got) == lagom::channel_status::ok && got == i, "channel: an item is lost or out of order");
      } else {
        expect(ch.send(i) == lagom::channel_status::ok, "channel: an item is not accepted");
      }
    }
  }
  void channels_are_empty(unsigned) {
    unsigned got = 0;
    expect(rendezvous_.try_receive(got) != lagom::channel_status::ok, "rendezvous: an item too many");
    expect(buffer_.try_receive(got) != lagom::channel_status::ok, "channel: an item too many");
  }

  // Strict alternation by a condition.
  void conditions(unsigned me, unsigned turns) {
    conversation& c = conversations_[me / 2];
    for (unsigned i = 0; i < turns; ++i) {
      std::unique_lock hold(c.guard);
      c.changed.wait(hold, [&] { return c.turn == me % 2; });
      c.turn ^= 1;
      ++c.spoken;
      c.changed.notify_one();
    }
  }
  void all_was_said(unsigned turns) {
    for (conversation& c : conversations_) {
      expect(c.spoken == 2 * turns, "condition variable: a turn is lost");
      c.spoken = 0;
    }
  }

  // Waits that give up race with what they wait for.
  void impatience(unsigned me, unsigned turns) {
    auto& mine = semaphores_[me];
    auto& other = semaphores_[me ^ 1];
    for (unsigned i = 0; i < turns; ++i) {
      other.release();
      while (!mine.try_acquire_for(std::chrono::microseconds(1 + i % 16))) {
      }
    }
  }

  // ---- By all.
  void mutexes(unsigned, unsigned turns) {
    for (unsigned i = 0; i < turns; ++i) {
      const std::lock_guard hold(mutex_);
      const std::uint64_t before = sum_;
      if (i % 4 == 0) lagom::this_fiber::yield();  // now they queue
      sum_ = before + 1;
    }
  }
  void every_turn_counted(unsigned turns) { expect(sum_ == std::uint64_t{players} * turns, "mutex: two were inside"); }

  void shared_mutexes(unsigned me, unsigned turns) {
    for (unsigned i = 0; i < turns; ++i) {
      if ((me + i) % players == 0) {
        const std::lock_guard hold(shared_mutex_);
        const std::uint64_t before = sum_;
        lagom::this_fiber::yield();
        sum_ = before + 1;
      } else {
        const std::shared_lock hold(shared_mutex_);
        const std::uint64_t before = sum_;
        if (i % 4 == 0) lagom::this_fiber::yield();
        expect(sum_ == before, "shared mutex: a writer among readers");
      }
    }
  }
  // In four turns in a row each player writes once.
  void writers_counted(unsigned turns) {
    std::uint64_t wanted = 0;
    for (unsigned me = 0; me < players; ++me) {
      for (unsigned i = 0; i < turns; ++i) wanted += (me + i) % players == 0;
    }
    expect(sum_ == wanted, "shared mutex: a write is lost");
  }

  void barriers(unsigned, unsigned turns) {
    for (unsigned i = 0; i < turns; ++i) between_.arrive_and_wait();
  }
  void nothing(unsigned) {}

  // Player 0 waits for the others; then they wait for it.
  void wait_groups(unsigned me, unsigned turns) {
    for (unsigned i = 0; i < turns; ++i) {
      if (me == 0) group_.add(players - 1);
      between_.arrive_and_wait();
      if (me == 0) {
        group_.wait();
      } else {
        group_.done();
      }
    }
  }
  void latches(unsigned me, unsigned turns) {
    for (unsigned i = 0; i < turns; ++i) {
      if (me == 0) latch_.emplace(players);
      between_.arrive_and_wait();
      latch_->arrive_and_wait();
      between_.arrive_and_wait();
    }
  }

  void sleeps(unsigned me, unsigned turns) {
    for (unsigned i = 0; i < turns; ++i) {
      const auto d = std::chrono::microseconds((me * 7 + i * 13) % 60);
      const auto until = std::chrono::steady_clock::now() + d;
      lagom::this_fiber::sleep_for(d);
      expect(std::chrono::steady_clock::now() >= until, "sleep: too short");
    }
  }

  // Children who wait for what never comes, and are stopped in the middle, before or as they begin.
  void stops(unsigned me, unsigned turns) {
    for (unsigned i = 0; i < turns; ++i) {
      bool was_stopped = false;
      lagom::counting_semaphore<> never(0);
      lagom::fiber child = lagom::spawn([&] {
        try {
          switch ((me + i) % 3) {
            case 0: never.acquire(); break;
            case 1: lagom::this_fiber::sleep_for(1h); break;
            default: lagom::channel<int>(0).receive();
          }
        } catch (const std::system_error& e) {
          was_stopped = e.code() == lagom::errc::stopped;
        }
      });
      for (unsigned k = 0; k < i % 4; ++k) lagom::this_fiber::yield();
      child.request_stop();
      child.join();
      expect(was_stopped, "stop: a wait ended otherwise");
    }
  }

  // Each player's children meet it again through join and a future.
  void families(unsigned me, unsigned turns) {
    for (unsigned i = 0; i < turns; ++i) {
      unsigned result = 0;
      lagom::fiber child = lagom::spawn([&] {
        lagom::this_fiber::yield();
        result = me + i;
      });
      child.join();
      expect(result == me + i, "join: returned too early");
    }
  }

  static constexpr game games[] = {
      {"semaphore", &table::semaphores, &table::no_semaphore_is_left, 4000},
      {"event", &table::events, &table::no_event_is_set, 4000},
      {"channel", &table::channels, &table::channels_are_empty, 4000},
      {"condition_variable", &table::conditions, &table::all_was_said, 4000},
      {"timed waits", &table::impatience, &table::no_semaphore_is_left, 400},
      {"mutex", &table::mutexes, &table::every_turn_counted, 4000},
      {"shared_mutex", &table::shared_mutexes, &table::writers_counted, 1000},
      {"barrier", &table::barriers, &table::nothing, 2000},
      {"wait_group", &table::wait_groups, &table::nothing, 2000},
      {"latch", &table::latches, &table::nothing, 1000},
      {"sleep", &table::sleeps, &table::nothing, 50},
      {"stop", &table::stops, &table::nothing, 50},
      {"join", &table::families, &table::nothing, 100},
  };

  struct conversation {
    lagom::mutex guard;
    lagom::condition_variable changed;
    unsigned turn = 0;
    std::uint64_t spoken = 0;
  };

  const std::atomic<bool>& over_;
  std::minstd_rand random_;
  std::size_t next_ = 0;
  unsigned turns_ = 0;
  bool ended_ = false;
  std::array<std::uint64_t, 16> played_{};
  std::uint64_t sum_ = 0;

  lagom::barrier<> between_{players};
  std::array<lagom::counting_semaphore<>, players> semaphores_{lagom::counting_semaphore<>(0), lagom::counting_semaphore<>(0),
                                                       lagom::counting_semaphore<>(0), lagom::counting_semaphore<>(0)};
  std::array<lagom::event, players> events_{lagom::event(lagom::reset::automatic), lagom::event(lagom::reset::automatic),
                                            lagom::event(lagom::reset::automatic), lagom::event(lagom::reset::automatic)};
  lagom::channel<unsigned> rendezvous_{0}, buffer_{3};
  conversation conversations_[players / 2];
  lagom::mutex mutex_;
  lagom::shared_mutex shared_mutex_;
  lagom::wait_group group_;
  std::optional<lagom::latch> latch_;
};

}  // namespace soak
