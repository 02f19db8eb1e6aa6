// SPDX-License-Identifier: BSL-1.0
// The self-check of messaging must notice what a broken channel would do.
#include "message.hpp"

#include <doctest/doctest.h>

#include "measurement.hpp"

namespace lagom::bench {

namespace {

constexpr std::size_t receiver = 7;

/// A ledger that has accepted the first `loops` messages of every sender.
message_ledger filled(std::uint32_t loops) {
  message_ledger ledger(receiver);
  for (std::uint32_t sequence = 0; sequence < loops; ++sequence) {
    for (std::uint32_t sender = 0; sender < senders_per_group; ++sender) {
      ledger.accept(compose(receiver, sender, sequence));
    }
  }
  return ledger;
}

}  // namespace

TEST_CASE("all messages in order are fine, whatever the order of the senders") {
  message_ledger ledger(receiver);
  for (std::uint32_t sender = senders_per_group; sender-- > 0;) {
    for (std::uint32_t sequence = 0; sequence < 3; ++sequence) {
      ledger.accept(compose(receiver, sender, sequence));
    }
  }
  CHECK_NOTHROW(ledger.close(3));
}

TEST_CASE("a lost last message is noticed at the end") {
  auto ledger = filled(2);
  ledger.accept(compose(receiver, 0, 2));
  CHECK_THROWS_AS(ledger.close(3), check_failed);
}

TEST_CASE("a message lost in the middle, doubled or overtaken is noticed at once") {
  auto ledger = filled(2);
  CHECK_THROWS_AS(ledger.accept(compose(receiver, 4, 3)), check_failed);
  CHECK_THROWS_AS(ledger.accept(compose(receiver, 4, 1)), check_failed);
  CHECK_NOTHROW(ledger.accept(compose(receiver, 4, 2)));
}

TEST_CASE("a message of another receiver or of nobody is noticed") {
  auto ledger = filled(1);
  CHECK_THROWS_AS(ledger.accept(compose(receiver + 1, 0, 1)), check_failed);
  CHECK_THROWS_AS(ledger.accept(compose(receiver, senders_per_group, 1)), check_failed);
}

TEST_CASE("a torn message is noticed: head of one, tail of another") {
  auto ledger = filled(1);
  auto torn = compose(receiver, 3, 1);
  torn.seal = compose(receiver, 3, 2).seal;
  CHECK_THROWS_AS(ledger.accept(torn), check_failed);
  torn.seal = compose(receiver, 4, 1).seal;
  CHECK_THROWS_AS(ledger.accept(torn), check_failed);
}

}  // namespace lagom::bench
