// Fields of JSON that somebody else wrote: absent, null and a wrong type alike give the fallback,
// nothing throws. For .cc files only: it includes nlohmann/json.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace numafit::cli::doctor {

// Null where there is no such field.
inline const nlohmann::json& At(const nlohmann::json& object, std::string_view key) {
  static const nlohmann::json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(std::string(key));
  return found == object.end() ? kNull : *found;
}

inline std::string Text(const nlohmann::json& object, std::string_view key) {
  const nlohmann::json& value = At(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

inline std::int64_t Int(const nlohmann::json& object, std::string_view key,
                        std::int64_t fallback = 0) {
  const nlohmann::json& value = At(object, key);
  return value.is_number_integer() ? value.get<std::int64_t>() : fallback;
}

inline bool Bool(const nlohmann::json& object, std::string_view key, bool fallback = false) {
  const nlohmann::json& value = At(object, key);
  return value.is_boolean() ? value.get<bool>() : fallback;
}

// An empty list where there is none.
inline const nlohmann::json& List(const nlohmann::json& object, std::string_view key) {
  static const nlohmann::json kEmpty = nlohmann::json::array();
  const nlohmann::json& value = At(object, key);
  return value.is_array() ? value : kEmpty;
}

}  // namespace numafit::cli::doctor
