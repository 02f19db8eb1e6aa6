// SPDX-License-Identifier: BSL-1.0
#include <lagom/error.hpp>
#include <lagom/version.hpp>

#include <string>

namespace lagom {
inline namespace v0 {

namespace {

class category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "lagom"; }
  std::string message(int value) const override {
    switch (static_cast<errc>(value)) {
      case errc::stopped: return "a stop was requested";
      case errc::closed: return "closed";
      case errc::no_runtime: return "not on a fiber: no runtime here";
      case errc::would_deadlock: return "the call would wait for itself";
      case errc::not_supported: return "not supported here";
      case errc::not_joinable: return "not joinable";
      case errc::forked: return "it belongs to the process that forked this one";
    }
    return "unknown error " + std::to_string(value);
  }
};

}  // namespace

const std::error_category& error_category() noexcept {
  static const category instance;
  return instance;
}

#define LAGOM_TEXT_(x) #x
#define LAGOM_TEXT(x) LAGOM_TEXT_(x)
const char* version() noexcept {
  return LAGOM_TEXT(LAGOM_VERSION_MAJOR) "." LAGOM_TEXT(LAGOM_VERSION_MINOR) "." LAGOM_TEXT(LAGOM_VERSION_PATCH);
}

}  // namespace v0
}  // namespace lagom
