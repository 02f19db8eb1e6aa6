// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <lagom/net.hpp>

#include "os/socket.hpp"

namespace lagom {
inline namespace v0 {
namespace net {

/// Between the public value and the system's.
struct endpoint_access {
  static os::socket_address to_system(const endpoint& e) noexcept;
  static endpoint from_system(const os::socket_address& address) noexcept;
};

}  // namespace net
}  // namespace v0
}  // namespace lagom
