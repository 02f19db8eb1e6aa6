// SPDX-License-Identifier: BSL-1.0
// Whoever waits until no fiber is left is woken by the last one, however close the two come. They once could miss each
// other: a worker counted an ended fiber by a plain store, looked whether anybody waits, and that look overtook the store.
// One wait of 60,000 was lost so, and a runtime's destructor has no limit of time.
#include <random>

#include "support/fixture.hpp"

using namespace lagom::tests;

TEST_CASE("draining at the moment in which the last fiber ends") {
  for (const unsigned chaos : {0u, 3u}) {
    for (const unsigned workers : {1u, 2u}) {
      lagom::runtime_options options;
      options.workers = workers;
      options.chaos_seed = chaos;
      lagom::runtime rt(options);
      std::minstd_rand random(workers);
      long lost = 0;
      for (long i = rounds(50'000); i > 0; --i) {
        std::atomic<bool> about_to_end{false};
        for (unsigned k = 1; k < workers; ++k) rt.spawn_detached([] {});
        rt.spawn_detached([&] { about_to_end = true; });
        while (!about_to_end) {
        }
        for (auto k = random() % 60; k > 0; --k) std::atomic_signal_fence(std::memory_order_seq_cst);  // a loop that stays
        // A lost wake-up shows as a wait that lasts as long as it may.
        const auto until = clock::now() + 20s;
        if (!rt.drain_for(20s) || clock::now() >= until) ++lost;
        if (lost > 2) break;
      }
      CHECK(lost == 0);
    }
  }
}
