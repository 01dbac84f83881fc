// Reading typed fields out of a parsed JSON document, with the rules of Go's encoding/json.
// For .cc files only: it includes nlohmann/json.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "api/objects.h"
#include "api/quantity.h"

namespace numafit::api {

// A value inside a document together with the path that leads to it. Getters return the zero value
// for absent and null, and record the first wrong type in the shared status; so a reader is a
// straight list of fields with one check at its end. A plain view: the document and the status
// must outlive it.
class JsonReader {
 public:
  JsonReader(const nlohmann::json& value, absl::Status& status)
      : value_(&value), status_(&status) {}

  // The member of an object: exact key first, else one that differs in ASCII case only.
  [[nodiscard]] JsonReader operator[](std::string_view key) const;

  // Absent and null alike.
  [[nodiscard]] bool IsNull() const { return value_ == nullptr || value_->is_null(); }
  [[nodiscard]] std::string String() const;
  [[nodiscard]] bool Bool() const;
  [[nodiscard]] std::int64_t Int(std::int64_t min, std::int64_t max) const;
  // An RFC 3339 time as seconds since the epoch; 0 when absent or empty.
  [[nodiscard]] std::int64_t Seconds() const;
  // A resource.Quantity, as text or as a bare number (as apimachinery takes it).
  [[nodiscard]] Quantity AsQuantity() const;
  [[nodiscard]] StringMap AsStringMap() const;
  [[nodiscard]] std::vector<std::string> Strings() const;
  // The number of elements of an array.
  [[nodiscard]] std::size_t Size() const;
  // Any value; null when absent.
  [[nodiscard]] const nlohmann::json& Raw() const;

  // Calls visit(JsonReader element) for each element of an array.
  template <typename Visit>
  void ForEach(Visit visit) const {
    const std::size_t size = Size();
    for (std::size_t i = 0; i < size; ++i) visit(Element(i));
  }
  // Calls visit(const std::string& key, JsonReader value) for each member of an object.
  template <typename Visit>
  void ForEachMember(Visit visit) const {
    if (!CheckObject()) return;
    for (const auto& [key, value] : value_->items()) visit(key, Child(value, "." + key));
  }

  // Records an error at this place unless an earlier one is recorded.
  void Fail(std::string_view message) const;

 private:
  JsonReader() = default;
  [[nodiscard]] JsonReader Child(const nlohmann::json& value, const std::string& step) const;
  [[nodiscard]] JsonReader Element(std::size_t index) const;
  [[nodiscard]] bool CheckObject() const;

  const nlohmann::json* value_ = nullptr;
  absl::Status* status_ = nullptr;
  std::string path_;
};

}  // namespace numafit::api
