// SPDX-License-Identifier: BSL-1.0
// What a change of attributes costs: calls that change nothing, in default and in custom mode, which are to cost the same,
// and calls that do. Rounds of all kinds are interleaved and the best of each kind counts, so that a busy machine adds
// little. Prints nanoseconds per call.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <lagom/lagom.hpp>

namespace {

using namespace std::chrono_literals;

struct kind {
  std::string name;
  std::function<void(int)> calls;  // makes so many
  double best = 1e9;
};

void run_round(kind& k, int calls) {
  const auto begin = std::chrono::steady_clock::now();
  k.calls(calls);
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
  k.best = std::min(k.best, taken.count() / calls);
}

// A fiber that sleeps until it is destroyed.
lagom::fiber sleeper(lagom::attributes a) {
  return lagom::spawn(a, [] {
    try {
      lagom::this_fiber::sleep_for(1h);
    } catch (const std::system_error&) {  // stopped
    }
  });
}

kind unchanged(const char* name, lagom::fiber& f, const lagom::attributes& a) {
  return {name, [&f, a](int n) {
            while (n-- > 0) f.set_attributes(a);
          }};
}

std::vector<kind> all_kinds(lagom::fiber& by_default, lagom::fiber& custom, lagom::fiber& queued, const lagom::attributes& custom_mode) {
  std::vector<kind> all;
  all.push_back(unchanged("unchanged, default mode, another's", by_default, {}));
  all.push_back(unchanged("unchanged, custom mode, another's", custom, custom_mode));
  all.push_back({"unchanged, default mode, own", [](int n) {
                   const lagom::attributes a = lagom::this_fiber::get_attributes();
                   while (n-- > 0) lagom::this_fiber::set_attributes(a);
                 }});
  all.push_back({"unchanged slice alone, another's", [&](int n) {
                   while (n-- > 0) custom.set_slice(custom_mode.slice);
                 }});
  all.push_back({"changed nice, of a sleeping one", [&](int n) {
                   while (n-- > 0) custom.set_nice(n & 1);
                 }});
  all.push_back({"changed nice, of a queued one", [&](int n) {
                   while (n-- > 0) queued.set_nice(n & 1);
                 }});
  all.push_back({"changed nice, own", [](int n) {
                   while (n-- > 0) lagom::this_fiber::set_nice(n & 1);
                 }});
  all.push_back({"changed slice, own", [](int n) {
                   while (n-- > 0) lagom::this_fiber::set_slice(1ms + std::chrono::nanoseconds(n & 1));
                   lagom::this_fiber::set_slice(0ms);
                 }});
  return all;
}

}  // namespace

int main() {
  lagom::runtime_options options;
  options.workers = 1;
  options.rescue_after = 0ms;  // or the queued fiber would be taken elsewhere
  lagom::runtime rt(options);
  rt.run([] {
    lagom::attributes custom_mode;
    custom_mode.slice = 3ms;
    lagom::fiber by_default = sleeper({}), custom = sleeper(custom_mode);
    lagom::this_fiber::yield();
    lagom::fiber queued = lagom::spawn([] {});  // waits for its turn as long as this fiber measures
    std::vector<kind> all = all_kinds(by_default, custom, queued, custom_mode);
    for (int round = 0; round < 300; ++round) {
      custom.set_nice(0);
      for (kind& k : all) run_round(k, 2000);
    }
    for (const kind& k : all) std::printf("%-36s %7.1f ns\n", k.name.c_str(), k.best);
  });
  return 0;
}
