#include "api/json_reader.h"

#include <fmt/format.h>

#include <algorithm>

namespace numafit::api {
namespace {

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool EqualFold(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return Lower(x) == Lower(y); });
}

}  // namespace

void JsonReader::Fail(std::string_view message) const {
  if (!status_->ok()) return;
  const std::string_view path = path_.empty() ? "document" : std::string_view(path_).substr(1);
  *status_ = absl::InvalidArgumentError(fmt::format("{}: {}", path, message));
}

JsonReader JsonReader::Child(const nlohmann::json& value, const std::string& step) const {
  JsonReader child(value, *status_);
  child.path_ = path_ + step;
  return child;
}

JsonReader JsonReader::Element(std::size_t index) const {
  return Child((*value_)[index], fmt::format("[{}]", index));
}

bool JsonReader::CheckObject() const {
  if (IsNull()) return false;
  if (value_->is_object()) return true;
  Fail(fmt::format("expected an object, got {}", value_->type_name()));
  return false;
}

JsonReader JsonReader::operator[](std::string_view key) const {
  JsonReader child;
  child.status_ = status_;
  child.path_ = fmt::format("{}.{}", path_, key);
  if (!CheckObject()) return child;
  auto found = value_->find(key);
  if (found == value_->end()) {
    for (found = value_->begin(); found != value_->end(); ++found) {
      if (EqualFold(found.key(), key)) break;
    }
  }
  if (found != value_->end()) child.value_ = &*found;
  return child;
}

std::string JsonReader::String() const {
  if (IsNull()) return "";
  if (value_->is_string()) return value_->get_ref<const std::string&>();
  Fail(fmt::format("expected a string, got {}", value_->type_name()));
  return "";
}

bool JsonReader::Bool() const {
  if (IsNull()) return false;
  if (value_->is_boolean()) return value_->get<bool>();
  Fail(fmt::format("expected true or false, got {}", value_->type_name()));
  return false;
}

std::int64_t JsonReader::Int(std::int64_t min, std::int64_t max) const {
  if (IsNull()) return 0;
  if (!value_->is_number_integer()) {
    const std::string got = value_->is_number() ? value_->dump() : value_->type_name();
    Fail(fmt::format("expected an integer, got {}", got));
    return 0;
  }
  const bool too_large = value_->is_number_unsigned() &&
                         value_->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX);
  const std::int64_t number = too_large ? INT64_MAX : value_->get<std::int64_t>();
  if (too_large || number < min || number > max) {
    Fail(fmt::format("{} is outside of {} to {}", value_->dump(), min, max));
    return 0;
  }
  return number;
}

std::size_t JsonReader::Size() const {
  if (IsNull()) return 0;
  if (value_->is_array()) return value_->size();
  Fail(fmt::format("expected a list, got {}", value_->type_name()));
  return 0;
}

const nlohmann::json& JsonReader::Raw() const {
  static const nlohmann::json kNull;
  return value_ == nullptr ? kNull : *value_;
}

}  // namespace numafit::api
