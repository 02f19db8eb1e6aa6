// SPDX-License-Identifier: BSL-1.0
// One operation: one 100-byte message through a channel of 64 that never fills up nor runs dry for long: the cost of
// send and receive without waiting.
#include <algorithm>
#include <array>

#include "gate.hpp"

int main(int argc, char** argv) {
  return lagom::bench::run_gate(argc, argv, [](std::uint64_t operations) {
    using message = std::array<unsigned char, 100>;
    constexpr std::uint64_t burst = 50;
    lagom::channel<message> messages(64);
    std::uint64_t received = 0;
    message carried{};
    for (std::uint64_t left = operations; left > 0;) {
      const std::uint64_t count = std::min(burst, left);
      for (std::uint64_t number = 0; number < count; ++number) {
        carried[0] = static_cast<unsigned char>(number);
        messages.send(carried);
      }
      for (std::uint64_t number = 0; number < count; ++number) {
        messages.receive(carried);
        received += carried[0] == static_cast<unsigned char>(number) ? 1 : 0;
      }
      left -= count;
    }
    return received;
  });
}
