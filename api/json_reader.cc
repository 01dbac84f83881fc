#include "api/json_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "absl/time/time.h"

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

std::int64_t JsonReader::Seconds() const {
  const std::string text = String();
  if (text.empty()) return 0;
  absl::Time time;
  if (std::string error; !absl::ParseTime(absl::RFC3339_full, text, &time, &error)) {
    Fail(fmt::format("\"{:.64}\" is not an RFC 3339 time", text));
    return 0;
  }
  return absl::ToUnixSeconds(time);
}

Quantity JsonReader::AsQuantity() const {
  if (IsNull()) return {};
  // apimachinery takes blanks around the text, too.
  std::string text = value_->is_number() ? value_->dump() : String();
  constexpr std::string_view kBlanks = " \t\r\n\v\f";
  text.erase(0, std::min(text.find_first_not_of(kBlanks), text.size()));
  text.erase(text.find_last_not_of(kBlanks) + 1);
  if (text.empty() && !value_->is_string()) return {};  // wrong type, reported above
  const absl::StatusOr<Quantity> quantity = Quantity::Parse(text);
  if (!quantity.ok()) {
    Fail(std::string(quantity.status().message()));
    return {};
  }
  return *quantity;
}

StringMap JsonReader::AsStringMap() const {
  StringMap map;
  ForEachMember([&](const std::string& key, const JsonReader& value) {
    map.insert_or_assign(key, value.String());
  });
  return map;
}

std::vector<std::string> JsonReader::Strings() const {
  std::vector<std::string> texts;
  ForEach([&](const JsonReader& entry) { texts.push_back(entry.String()); });
  return texts;
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
