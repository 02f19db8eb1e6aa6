// SPDX-License-Identifier: BSL-1.0
// Very many wake-ups through every primitive in random order, and not one lost: tables of four fibers play one game after
// the other (soak_games.hpp); plain threads wake fibers and are woken by them. If nothing moves for a while, the runtime's
// state is printed and the program fails. script/soak runs it for 10^9 wake-ups.
#include <charconv>
#include <cstring>
#include <iostream>
#include <string>
#include <string_view>
#include <thread>

#include "soak_games.hpp"

namespace {

using clock_type = std::chrono::steady_clock;
using namespace std::chrono_literals;

struct options {
  std::uint64_t wakeups = 100'000'000;
  std::uint64_t workers = 2;
  std::uint64_t seconds = 0;  // 0: no limit
  std::uint64_t tables = 0;   // 0: twelve for each worker
  std::uint64_t threads = 2;
  std::uint64_t chaos = 0;
  std::uint64_t seed = 1;
  std::uint64_t patience = 30;
};

void usage() {
  std::cout << "usage: soak [--wakeups N] [--workers N] [--seconds N] [--tables N] [--threads N] [--chaos SEED] [--seed N] [--patience SECONDS]\n"
               "Ends after --wakeups or --seconds, whichever comes first; then everything must come to its end.\n"
               "LAGOM_TEST_SHORT divides --wakeups by a hundred.\n";
}

options parse(int count, char** words) {
  options o;
  const std::pair<std::string_view, std::uint64_t*> known[] = {
      {"--wakeups", &o.wakeups}, {"--workers", &o.workers}, {"--seconds", &o.seconds}, {"--tables", &o.tables},
      {"--threads", &o.threads}, {"--chaos", &o.chaos},     {"--seed", &o.seed},       {"--patience", &o.patience}};
  for (int i = 1; i < count; i += 2) {
    std::uint64_t* value = nullptr;
    for (const auto& [name, place] : known) {
      if (name == words[i]) value = place;
    }
    const char* text = i + 1 < count ? words[i + 1] : "";
    const char* end = text + std::strlen(text);
    if (!value || std::from_chars(text, end, *value).ptr != end || text == end) {
      usage();
      std::exit(std::string_view(words[i]) == "--help" ? 0 : 2);
    }
  }
  if (std::getenv("LAGOM_TEST_SHORT")) o.wakeups /= 100;
  return o;
}

// A plain thread and a fiber that wake each other.
struct crossing {
  lagom::counting_semaphore<> to_fiber{0}, to_thread{0};
  std::uint64_t turns = 0, answered = 0;
  bool last = false;

  void thread(const std::atomic<bool>& over, std::uint64_t seed) {
    std::minstd_rand random(static_cast<unsigned>(seed));
    while (!last) {
      last = over;
      ++turns;
      to_fiber.release();
      to_thread.acquire();
      // Seldom: a thread's wake-up costs a thousand times a fiber's.
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
    }
  }
  void fiber() {
    for (bool ends = false; !ends;) {
      to_fiber.acquire();
      ++answered;
      ends = last;
      to_thread.release();
    }
  }
};

/// Looks whether the count still grows; the runtime's own count, so that nothing is claimed that did not happen.
class watch {
 public:
  watch(lagom::runtime& rt, std::chrono::seconds patience) : runtime_(rt), patience_(patience), moved_(clock_type::now()) {}

  std::uint64_t look() {
    const lagom::runtime_stats s = runtime_.stats();
    const std::uint64_t count = s.wake_latency.count();
    const auto now = clock_type::now();
    if (count != seen_) {
      seen_ = count;
      moved_ = now;
    } else if (now - moved_ > patience_) {
      std::cerr << "soak: no wake-up for " << patience_.count() << " s, after " << count << "\n";
      runtime_.dump(std::cerr);
      std::cerr.flush();
      std::_Exit(1);
    }
    return count;
  }

 private:
  lagom::runtime& runtime_;
  const std::chrono::seconds patience_;
  std::uint64_t seen_ = 0;
  clock_type::time_point moved_;
};

void report(const options& o, std::uint64_t count, double seconds, const std::vector<std::unique_ptr<soak::table>>& tables,
            std::uint64_t crossings) {
  std::cout << count << " wake-ups in " << seconds << " s on " << o.workers << " workers, "
            << (o.chaos ? "chaos " + std::to_string(o.chaos) : std::string("no chaos")) << ", seed " << o.seed << ": none lost\n";
  for (std::size_t kind = 0; kind < soak::table::kinds(); ++kind) {
    std::uint64_t games = 0;
    for (const auto& t : tables) games += t->games_of(kind);
    std::cout << "  " << soak::table::name_of(kind) << ": " << games << " games\n";
  }
  std::cout << "  between threads and fibers: " << crossings << " turns" << std::endl;
}

}  // namespace

int main(int count, char** words) {
  const options o = parse(count, words);
  lagom::runtime_options ro;
  ro.workers = static_cast<unsigned>(o.workers);
  ro.chaos_seed = o.chaos;
  lagom::runtime rt(ro);
  const std::chrono::seconds patience(o.patience * (std::getenv("LAGOM_TEST_SHORT") ? 4 : 1));
  const auto began = clock_type::now();
  std::atomic<bool> over{false};

  std::vector<std::unique_ptr<soak::table>> tables;
  std::vector<lagom::fiber> fibers;
  for (std::uint64_t t = 0; t < (o.tables ? o.tables : 12 * o.workers); ++t) {
    tables.push_back(std::make_unique<soak::table>(o.seed * 1'000'003 + t, over));
    lagom::attributes a;
    a.pinned = t % 4 == 0;  // its players are on different workers and stay there
    for (unsigned me = 0; me < soak::players; ++me) {
      fibers.push_back(rt.spawn(a, [&table = *tables.back(), me] { table.play(me); }));
    }
  }
  std::vector<std::unique_ptr<crossing>> crossings;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < o.threads; ++t) {
    crossing& c = *crossings.emplace_back(std::make_unique<crossing>());
    fibers.push_back(rt.spawn([&c] { c.fiber(); }));
    threads.emplace_back([&c, &over, seed = o.seed + t] { c.thread(over, seed); });
  }

  watch w(rt, patience);
  const auto until = o.seconds ? began + std::chrono::seconds(o.seconds) : clock_type::time_point::max();
  while (w.look() < o.wakeups && clock_type::now() < until) std::this_thread::sleep_for(20ms);
  over = true;
  while (!rt.drain_for(100ms)) w.look();
  for (std::thread& t : threads) t.join();
  for (lagom::fiber& f : fibers) f.join();

  std::uint64_t turns = 0;
  for (const auto& c : crossings) {
    soak::expect(c->turns == c->answered, "threads and fibers: a turn is lost");
    turns += c->turns;
  }
  const lagom::runtime_stats s = rt.stats();
  soak::expect(s.fibers == 0 && s.spawned == s.finished, "a fiber is left");
  report(o, s.wake_latency.count(), std::chrono::duration<double>(clock_type::now() - began).count(), tables, turns);
  return s.wake_latency.count() >= o.wakeups || o.seconds ? 0 : 1;
}
