// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <unistd.h>

#include <cstddef>
#include <utility>

namespace lagom::bench {

/// Owns a file descriptor.
class descriptor {
 public:
  descriptor() noexcept = default;
  explicit descriptor(int number) noexcept : number_(number) {}
  descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~descriptor() { close(); }

  int get() const noexcept { return number_; }
  void close() noexcept {
    if (number_ >= 0) {
      ::close(std::exchange(number_, -1));
    }
  }

 private:
  int number_ = -1;
};

/// Two ends of something that carries bytes from `writing` to `reading`.
struct descriptor_pair {
  descriptor reading;
  descriptor writing;
};

/// Throw std::system_error when the descriptors have run out.
descriptor_pair make_pipe_ends();
descriptor_pair make_socket_ends();  // stream sockets, as perf's messaging uses

/// All of `size` bytes, however many calls it takes. Throw std::system_error; read_fully also at the end of the stream.
void write_fully(int number, const void* data, std::size_t size);
void read_fully(int number, void* data, std::size_t size);

}  // namespace lagom::bench
