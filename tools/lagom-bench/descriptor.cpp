// SPDX-License-Identifier: BSL-1.0
#include "descriptor.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>

namespace lagom::bench {

namespace {

[[noreturn]] void raise(int error, const char* what) { throw std::system_error(error, std::generic_category(), what); }

}  // namespace

descriptor_pair make_pipe_ends() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    raise(errno, "pipe2");
  }
  return {descriptor{ends[0]}, descriptor{ends[1]}};
}

descriptor_pair make_socket_ends() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    raise(errno, "socketpair");
  }
  return {descriptor{ends[0]}, descriptor{ends[1]}};
}

void write_fully(int number, const void* data, std::size_t size) {
  const auto* from = static_cast<const std::byte*>(data);
  while (size > 0) {
    const auto done = ::write(number, from, size);
    if (done >= 0) {
      from += done;
      size -= static_cast<std::size_t>(done);
    } else if (errno != EINTR) {
      raise(errno, "write");
    }
  }
}

void read_fully(int number, void* data, std::size_t size) {
  auto* to = static_cast<std::byte*>(data);
  while (size > 0) {
    const auto done = ::read(number, to, size);
    if (done > 0) {
      to += done;
      size -= static_cast<std::size_t>(done);
    } else if (done == 0) {
      raise(EPIPE, "read: end of stream");
    } else if (errno != EINTR) {
      raise(errno, "read");
    }
  }
}

}  // namespace lagom::bench
