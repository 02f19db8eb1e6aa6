// SPDX-License-Identifier: BSL-1.0
#include "symbols.hpp"

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace lagom::os {
namespace {

constexpr std::size_t longest_name = 200;

std::string readable(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(symbol, nullptr, nullptr, &status), &std::free);
  std::string text = status == 0 && name ? name.get() : symbol;
  if (text.size() > longest_name) text.replace(longest_name, std::string::npos, "...");
  return text;
}

std::string hex(std::uintptr_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "+0x%zx", static_cast<std::size_t>(value));
  return text;
}

}  // namespace

std::string describe_code(const void* address) {
  Dl_info found{};
  if (::dladdr(address, &found) == 0 || !found.dli_fname) return "?";
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  std::string text;
  if (found.dli_sname) {
    text = readable(found.dli_sname) + hex(at - reinterpret_cast<std::uintptr_t>(found.dli_saddr)) + ' ';
  }
  return text + '(' + found.dli_fname + hex(at - reinterpret_cast<std::uintptr_t>(found.dli_fbase)) + ')';
}

}  // namespace lagom::os
