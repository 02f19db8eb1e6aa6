// SPDX-License-Identifier: BSL-1.0
#include "after_fork.hpp"

#include "fiber/fiber.hpp"
#include "io/sockets.hpp"
#include "os/fork.hpp"

namespace lagom {
inline namespace v0 {
namespace detail {

void watch_forks() noexcept {
  static_cast<void>(socket_table::instance());  // made here, not in the child
  os::watch_forks([]() noexcept {
    forget_worker();
    forget_free_blocks();
    forget_spare_parkers();
    socket_table::instance().forget_free();
  });
}

}  // namespace detail
}  // namespace v0
}  // namespace lagom
