// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "scenario.hpp"

namespace lagom::sim {

// Reads members of one JSON object and checks their types and ranges. All throw input_error, naming `where`.
class fields {
 public:
  fields(const json& object, std::string where);

  // Refuses members that nobody will read.
  void allow_only(std::initializer_list<std::string_view> names) const;

  [[nodiscard]] bool has(const char* name) const { return object_.contains(name); }
  [[nodiscard]] const json* find(const char* name) const;
  [[nodiscard]] std::int64_t integer(const char* name, std::int64_t least, std::int64_t most) const;
  [[nodiscard]] std::int64_t integer_or(const char* name, std::int64_t otherwise, std::int64_t least,
                                        std::int64_t most) const;
  [[nodiscard]] bool flag_or(const char* name, bool otherwise) const;
  [[nodiscard]] std::string text(const char* name) const;
  [[noreturn]] void refuse(const std::string& what) const { throw input_error(where_, what); }
  [[nodiscard]] const std::string& where() const { return where_; }
  [[nodiscard]] const json& object() const { return object_; }

 private:
  const json& object_;
  std::string where_;
};

// "a, b, c"
std::string joined(std::initializer_list<std::string_view> names);

}  // namespace lagom::sim
