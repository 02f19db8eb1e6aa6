// SPDX-License-Identifier: BSL-1.0
#include <lagom/net.hpp>

#include <algorithm>
#include <cerrno>

#include <lagom/this_fiber.hpp>

#include "endpoint.hpp"
#include "os/clock.hpp"
#include "os/socket.hpp"
#include "sockets.hpp"

namespace lagom {
inline namespace v0 {
namespace net {
namespace {

using detail::direction;
using detail::socket_handle;
using detail::socket_table;
using detail::socket_use;

constexpr int default_backlog = 4096;
constexpr std::int64_t first_pause_ns = 10'000'000;
constexpr std::int64_t longest_pause_ns = 100'000'000;

void throw_if(const std::error_code& ec, const char* what) {
  if (ec) throw std::system_error(ec, what);
}

// Nothing was waited for: a loop over a socket that is always ready must let others run.
void let_others_run(bool has_waited) noexcept {
  if (!has_waited) this_fiber::checkpoint();
}

// Repeats what would block until it does not, or the use may not go on.
template <class Attempt>
os::transfer transfer_some(socket_use& use, Attempt&& attempt) noexcept {
  bool has_waited = false;
  for (;;) {
    os::transfer moved = attempt(use.descriptor());
    if (!moved.would_block()) {
      let_others_run(has_waited);
      return moved;
    }
    moved.error = use.wait();
    if (moved.error) return {0, moved.error};
    has_waited = true;
  }
}

// The connection has failed before it was accepted: the next one may be better. accept(2), "Error handling".
bool concerns_one_connection(const std::error_code& error) noexcept {
  static constexpr int passing[] = {ECONNABORTED, EPROTO, ENETDOWN, ENOPROTOOPT, EHOSTDOWN,
                                    ENONET, EHOSTUNREACH, ENETUNREACH, EPERM, ETIMEDOUT};
  return std::find(std::begin(passing), std::end(passing), error.value()) != std::end(passing);
}

bool means_scarcity(const std::error_code& error) noexcept {
  return error.value() == EMFILE || error.value() == ENFILE || error.value() == ENOBUFS || error.value() == ENOMEM;
}

endpoint address_of(socket_handle handle, std::error_code (*ask)(int, os::socket_address&) noexcept, const char* what) {
  socket_use use(handle);
  os::socket_address address;
  throw_if(use.error() ? use.error() : ask(use.descriptor(), address), what);
  return endpoint_access::from_system(address);
}

int descriptor_of(socket_handle handle) noexcept { return socket_use(handle).descriptor(); }

socket_handle take_over(int descriptor, const char* what) {
  throw_if(os::make_socket_non_blocking(descriptor), what);
  socket_handle handle;
  throw_if(socket_table::instance().insert(descriptor, handle), what);
  return handle;
}

// As take_over, for a descriptor of ours.
std::error_code insert_or_close(int descriptor, socket_handle& handle) noexcept {
  const std::error_code error = socket_table::instance().insert(descriptor, handle);
  if (error) os::close_descriptor(descriptor);
  return error;
}

}  // namespace

// ---- tcp_stream

tcp_stream tcp_stream::connect(const endpoint& peer, std::int64_t expiry, std::error_code& ec) noexcept {
  const os::socket_address address = endpoint_access::to_system(peer);
  const os::opened opened = os::open_tcp_socket(address.version);
  if ((ec = opened.error)) return {};
  tcp_stream stream;
  if ((ec = insert_or_close(opened.descriptor, stream.handle_))) return {};
  static_cast<void>(os::set_no_delay(opened.descriptor, true));
  stream.set_deadline(true, expiry);
  {
    socket_use use(stream.handle_, direction::write);
    if (!(ec = use.error())) ec = os::connect_socket(use.descriptor(), address);
    while (ec == std::errc::operation_in_progress) {
      if (!(ec = use.wait())) ec = os::connect_result(use.descriptor());
    }
  }
  if (ec) return {};
  stream.set_deadline(true, detail::never);
  return stream;
}

tcp_stream tcp_stream::connect_throwing(const endpoint& peer, std::int64_t expiry) {
  std::error_code ec;
  tcp_stream stream = connect(peer, expiry, ec);
  throw_if(ec, "lagom::net::tcp_stream::connect");
  return stream;
}

tcp_stream tcp_stream::adopt(int descriptor) { return tcp_stream(take_over(descriptor, "lagom::net::tcp_stream::adopt")); }

int tcp_stream::release() {
  int descriptor = -1;
  throw_if(socket_table::instance().release(handle_, descriptor), "lagom::net::tcp_stream::release");
  return descriptor;
}

std::size_t tcp_stream::read_some(std::span<std::byte> into, std::error_code& ec) noexcept {
  socket_use use(handle_, direction::read);
  if ((ec = use.error()) || into.empty()) return 0;
  const os::transfer moved = transfer_some(use, [into](int descriptor) { return os::receive_some(descriptor, into); });
  ec = moved.error;
  return moved.count;
}

std::size_t tcp_stream::read_some(std::span<std::byte> into) {
  std::error_code ec;
  const std::size_t count = read_some(into, ec);
  throw_if(ec, "lagom::net::tcp_stream::read_some");
  return count;
}

std::size_t tcp_stream::write_some(std::span<const std::byte> from, std::error_code& ec) noexcept {
  socket_use use(handle_, direction::write);
  if ((ec = use.error()) || from.empty()) return 0;
  const os::transfer moved = transfer_some(use, [from](int descriptor) { return os::send_some(descriptor, from); });
  ec = moved.error;
  return moved.count;
}

std::size_t tcp_stream::write_some(std::span<const std::byte> from) {
  std::error_code ec;
  const std::size_t count = write_some(from, ec);
  throw_if(ec, "lagom::net::tcp_stream::write_some");
  return count;
}

std::size_t tcp_stream::write_all(std::span<const std::byte> from, std::error_code& ec) noexcept {
  // One use for all of it, so that nobody else's bytes get in between.
  socket_use use(handle_, direction::write);
  ec = use.error();
  std::size_t written = 0;
  while (!ec && written < from.size()) {
    const auto rest = from.subspan(written);
    const os::transfer moved = transfer_some(use, [rest](int descriptor) { return os::send_some(descriptor, rest); });
    written += moved.count;
    ec = moved.error;
  }
  return written;
}

std::size_t tcp_stream::write_all(std::span<const std::byte> from) {
  std::error_code ec;
  const std::size_t count = write_all(from, ec);
  throw_if(ec, "lagom::net::tcp_stream::write_all");
  return count;
}

void tcp_stream::shutdown_write(std::error_code& ec) noexcept {
  socket_use use(handle_);
  ec = use.error() ? use.error() : os::shutdown_writing(use.descriptor());
}

void tcp_stream::shutdown_write() {
  std::error_code ec;
  shutdown_write(ec);
  throw_if(ec, "lagom::net::tcp_stream::shutdown_write");
}

void tcp_stream::set_no_delay(bool on) {
  socket_use use(handle_);
  throw_if(use.error() ? use.error() : os::set_no_delay(use.descriptor(), on), "lagom::net::tcp_stream::set_no_delay");
}

endpoint tcp_stream::local_endpoint() const {
  return address_of(handle_, os::local_address, "lagom::net::tcp_stream::local_endpoint");
}

endpoint tcp_stream::remote_endpoint() const {
  return address_of(handle_, os::peer_address, "lagom::net::tcp_stream::remote_endpoint");
}

void tcp_stream::set_deadline(bool write, std::int64_t expiry) noexcept {
  socket_table::instance().set_deadline(handle_, write ? direction::write : direction::read, expiry);
}

void tcp_stream::close() noexcept { socket_table::instance().close(handle_); }
bool tcp_stream::is_open() const noexcept { return socket_table::instance().is_open(handle_); }
int tcp_stream::native_handle() const noexcept { return descriptor_of(handle_); }

// ---- tcp_listener

tcp_listener::tcp_listener(const endpoint& local, listen_options options) {
  const os::listen_settings settings{.backlog = options.backlog > 0 ? options.backlog : default_backlog,
                                     .reuse_port = options.reuse_port,
                                     .v6_only = options.v6_only};
  os::opened opened = os::open_tcp_listener(endpoint_access::to_system(local), settings);
  // ":PORT" means every address there is; some systems have IPv4 only.
  const bool no_v6 = opened.error == std::errc::address_family_not_supported || opened.error == std::errc::address_not_available;
  if (no_v6 && local == endpoint::any_v6(local.port()) && !options.v6_only) {
    opened = os::open_tcp_listener(endpoint_access::to_system(endpoint::any(local.port())), settings);
  }
  throw_if(opened.error, "lagom::net::tcp_listener");
  // Accepted connections inherit it.
  static_cast<void>(os::set_no_delay(opened.descriptor, true));
  throw_if(insert_or_close(opened.descriptor, handle_), "lagom::net::tcp_listener");
}

tcp_listener tcp_listener::adopt(int descriptor) {
  tcp_listener listener;
  listener.handle_ = take_over(descriptor, "lagom::net::tcp_listener::adopt");
  static_cast<void>(os::set_no_delay(descriptor, true));  // fails for a Unix socket, which has no delay
  return listener;
}

tcp_stream tcp_listener::accept(std::error_code& ec) noexcept {
  socket_use use(handle_, direction::read);
  std::int64_t pause = first_pause_ns;
  bool has_waited = false;
  ec = use.error();
  while (!ec) {
    const os::opened opened = os::accept_connection(use.descriptor());
    if (!opened.error) {
      tcp_stream stream;
      ec = insert_or_close(opened.descriptor, stream.handle_);
      let_others_run(has_waited);
      return stream;
    }
    if (opened.error.value() == EAGAIN || opened.error.value() == EWOULDBLOCK) {
      ec = use.wait();
      has_waited = true;
    } else if (means_scarcity(opened.error)) {
      socket_use::report("accept: no descriptor or memory for another connection; trying until there is");
      ec = use.pause(os::monotonic_ns() + pause);
      pause = std::min(2 * pause, longest_pause_ns);
      has_waited = true;
    } else if (concerns_one_connection(opened.error)) {
      this_fiber::checkpoint();
    } else {
      ec = opened.error;
    }
  }
  return {};
}

tcp_stream tcp_listener::accept() {
  std::error_code ec;
  tcp_stream stream = accept(ec);
  throw_if(ec, "lagom::net::tcp_listener::accept");
  return stream;
}

endpoint tcp_listener::local_endpoint() const {
  return address_of(handle_, os::local_address, "lagom::net::tcp_listener::local_endpoint");
}

void tcp_listener::set_deadline(std::int64_t expiry) noexcept {
  socket_table::instance().set_deadline(handle_, direction::read, expiry);
}

void tcp_listener::close() noexcept { socket_table::instance().close(handle_); }
bool tcp_listener::is_open() const noexcept { return socket_table::instance().is_open(handle_); }
int tcp_listener::native_handle() const noexcept { return descriptor_of(handle_); }

}  // namespace net
}  // namespace v0
}  // namespace lagom
