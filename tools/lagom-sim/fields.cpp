// SPDX-License-Identifier: BSL-1.0
#include "fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lagom::sim {

std::string joined(std::initializer_list<std::string_view> names) { return fmt::format("{}", fmt::join(names, ", ")); }

fields::fields(const json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object.is_object()) {
    refuse(fmt::format("must be an object, is {}", object.type_name()));
  }
}

void fields::allow_only(std::initializer_list<std::string_view> names) const {
  for (const auto& member : object_.items()) {
    if (std::find(names.begin(), names.end(), member.key()) == names.end()) {
      refuse(fmt::format("unknown key '{}'; valid here: {}", member.key(), joined(names)));
    }
  }
}

const json* fields::find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() ? nullptr : &*found;
}

std::int64_t fields::integer(const char* name, std::int64_t least, std::int64_t most) const {
  const json* value = find(name);
  if (value == nullptr) {
    refuse(fmt::format("'{}' is missing: an integer from {} to {}", name, least, most));
  }
  const bool is_huge = value->is_number_unsigned() && value->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX);
  if (!value->is_number_integer() || is_huge || value->get<std::int64_t>() < least || value->get<std::int64_t>() > most) {
    refuse(fmt::format("'{}' must be an integer from {} to {}, is {}", name, least, most, value->dump()));
  }
  return value->get<std::int64_t>();
}

std::int64_t fields::integer_or(const char* name, std::int64_t otherwise, std::int64_t least, std::int64_t most) const {
  return has(name) ? integer(name, least, most) : otherwise;
}

bool fields::flag_or(const char* name, bool otherwise) const {
  const json* value = find(name);
  if (value == nullptr) {
    return otherwise;
  }
  if (!value->is_boolean()) {
    refuse(fmt::format("'{}' must be true or false, is {}", name, value->dump()));
  }
  return value->get<bool>();
}

std::string fields::text(const char* name) const {
  const json* value = find(name);
  if (value == nullptr) {
    refuse(fmt::format("'{}' is missing: a string", name));
  }
  if (!value->is_string() || value->get<std::string>().empty()) {
    refuse(fmt::format("'{}' must be a string that is not empty, is {}", name, value->dump()));
  }
  return value->get<std::string>();
}

}  // namespace lagom::sim
