// SPDX-License-Identifier: BSL-1.0
// Somebody's shared object that keeps its use of lagom to itself.
#include <lagom/lagom.hpp>

#include <atomic>

extern "C" __attribute__((visibility("default"))) int plugin_work(int fibers) {
  std::atomic<int> done{0};
  {
    lagom::runtime rt;
    lagom::event go;
    for (int i = 0; i < fibers; ++i) {
      rt.spawn_detached([&] {
        go.wait();
        ++done;
      });
    }
    go.set();
    rt.drain_for(std::chrono::hours(1));
  }
  return done.load();
}
