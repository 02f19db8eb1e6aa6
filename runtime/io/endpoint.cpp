// SPDX-License-Identifier: BSL-1.0
#include "endpoint.hpp"

#include <charconv>
#include <ostream>
#include <stdexcept>

namespace lagom {
inline namespace v0 {
namespace net {
namespace {

[[noreturn]] void refuse(std::string_view text) {
  throw std::invalid_argument("endpoint \"" + std::string(text) +
                              "\": expected ADDRESS:PORT, [IPV6]:PORT or :PORT, with numeric addresses");
}

std::uint16_t parse_port(std::string_view digits, std::string_view whole) {
  std::uint16_t port = 0;
  const char* end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, port);
  if (error != std::errc() || stopped != end || digits.empty()) refuse(whole);
  return port;
}

}  // namespace

os::socket_address endpoint_access::to_system(const endpoint& e) noexcept {
  return {.version = e.v6_ ? os::ip_version::v6 : os::ip_version::v4, .bytes = e.bytes_, .port = e.port_, .scope = e.scope_};
}

endpoint endpoint_access::from_system(const os::socket_address& address) noexcept {
  endpoint e;
  e.bytes_ = address.bytes;
  e.scope_ = address.scope;
  e.port_ = address.port;
  e.v6_ = address.version == os::ip_version::v6;
  return e;
}

endpoint endpoint::parse(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) refuse(text);
  const std::uint16_t port = parse_port(text.substr(colon + 1), text);
  std::string_view address = text.substr(0, colon);
  if (address.empty()) return any_v6(port);
  const bool brackets = address.front() == '[';
  if (brackets) {
    if (address.size() < 2 || address.back() != ']') refuse(text);
    address = address.substr(1, address.size() - 2);
  }
  os::socket_address parsed;
  // A zero inside would end the text early for the system.
  if (address.find('\0') != std::string_view::npos || !os::parse_address(std::string(address), parsed)) refuse(text);
  if (brackets != (parsed.version == os::ip_version::v6)) refuse(text);
  parsed.port = port;
  return endpoint_access::from_system(parsed);
}

endpoint endpoint::any(std::uint16_t port) noexcept {
  endpoint e;
  e.port_ = port;
  return e;
}

endpoint endpoint::any_v6(std::uint16_t port) noexcept {
  endpoint e = any(port);
  e.v6_ = true;
  return e;
}

endpoint endpoint::loopback(std::uint16_t port) noexcept {
  endpoint e = any(port);
  e.bytes_[0] = 127;
  e.bytes_[3] = 1;
  return e;
}

endpoint endpoint::loopback_v6(std::uint16_t port) noexcept {
  endpoint e = any_v6(port);
  e.bytes_[15] = 1;
  return e;
}

std::string endpoint::address() const { return os::format_address(endpoint_access::to_system(*this)); }

std::string endpoint::to_string() const {
  const std::string port = ':' + std::to_string(port_);
  return v6_ ? '[' + address() + ']' + port : address() + port;
}

std::ostream& operator<<(std::ostream& out, const endpoint& e) { return out << e.to_string(); }

}  // namespace net
}  // namespace v0
}  // namespace lagom
