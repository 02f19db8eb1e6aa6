// SPDX-License-Identifier: BSL-1.0
#include <system_error>

#include <lagom/io.hpp>
#include <lagom/this_fiber.hpp>

#include "descriptors.hpp"
#include "os/descriptor_wait.hpp"

namespace lagom {
inline namespace v0 {
namespace io {

std::error_code detail_io::wait(int fd, bool write, std::int64_t expiry) noexcept {
  const detail::io_home home = detail::current_io();
  if (home.table) return home.table->wait(fd, write ? detail::direction::write : detail::direction::read, expiry);
  return os::wait_for_descriptor(fd, write ? os::interest::writable : os::interest::readable, expiry);
}

std::size_t read(int fd, std::span<std::byte> into, std::error_code& ec) noexcept {
  // A loop over something that is always ready must let others run.
  for (bool has_waited = false;; has_waited = true) {
    const os::transfer moved = os::read_descriptor(fd, into);
    ec = moved.error;
    if (!moved.would_block()) {
      if (!has_waited) this_fiber::checkpoint();
      return moved.count;
    }
    if ((ec = wait_readable(fd))) return 0;
  }
}

std::size_t read(int fd, std::span<std::byte> into) {
  std::error_code ec;
  const std::size_t count = read(fd, into, ec);
  if (ec) throw std::system_error(ec, "lagom::io::read");
  return count;
}

std::size_t write(int fd, std::span<const std::byte> from, std::error_code& ec) noexcept {
  std::size_t written = 0;
  ec.clear();
  while (written < from.size()) {
    const os::transfer moved = os::write_descriptor(fd, from.subspan(written));
    written += moved.count;
    ec = moved.error;
    if (moved.would_block()) {
      ec = wait_writable(fd);
    } else {
      this_fiber::checkpoint();
    }
    if (ec) break;
  }
  return written;
}

std::size_t write(int fd, std::span<const std::byte> from) {
  std::error_code ec;
  const std::size_t count = write(fd, from, ec);
  if (ec) throw std::system_error(ec, "lagom::io::write");
  return count;
}

}  // namespace io
}  // namespace v0
}  // namespace lagom
