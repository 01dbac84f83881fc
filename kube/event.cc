#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "kube/requests.h"

namespace numafit::kube {
namespace {

// The API server's bounds (apis/core/validation: Event).
constexpr std::size_t kMaxNote = 1024;
constexpr std::size_t kMaxWord = 128;
constexpr std::size_t kMaxName = 253;

// At most `size` bytes, not ending within a character.
std::string Cut(const std::string& text, std::size_t size) {
  if (text.size() <= size) return text;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U) --size;
  return text.substr(0, size);
}

// FNV-1a: the same in every process, so that a repeated request has the name of the first.
std::uint64_t Hash(std::string_view text) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

// "train.18a2b3c4d5e6f7081a2b3c4d": the object's name, and what tells this Event from others.
std::string EventName(const EventRequest& event) {
  const std::string what =
      event.key.empty() ? fmt::format("{}\n{}", event.time_micros, event.note) : event.key;
  const std::string suffix =
      fmt::format(".{:016x}", Hash(event.uid + "\n" + event.reason + "\n" + what));
  std::string name = event.name.substr(0, kMaxName - suffix.size());
  while (!name.empty() && (name.back() == '.' || name.back() == '-')) name.pop_back();
  return name + suffix;
}

}  // namespace

absl::Status PostEvent(Transport& transport, const EventRequest& event) {
  for (const auto& [field, value] :
       {std::pair("kind", &event.kind), std::pair("name", &event.name),
        std::pair("uid", &event.uid), std::pair("reason", &event.reason),
        std::pair("controller", &event.controller), std::pair("instance", &event.instance)}) {
    if (value->empty()) return absl::InvalidArgumentError(fmt::format("event: no {}", field));
  }
  if (event.time_micros <= 0) return absl::InvalidArgumentError("event: no time");
  const std::string where = event.object_namespace.empty() ? "default" : event.object_namespace;
  nlohmann::json regarding = {{"apiVersion", event.api_version},
                              {"kind", event.kind},
                              {"name", event.name},
                              {"uid", event.uid}};
  if (!event.object_namespace.empty()) regarding["namespace"] = event.object_namespace;
  const nlohmann::json body = {
      {"apiVersion", "events.k8s.io/v1"},
      {"kind", "Event"},
      {"metadata", {{"name", EventName(event)}, {"namespace", where}}},
      {"eventTime", absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ",
                                     absl::FromUnixMicros(event.time_micros), absl::UTCTimeZone())},
      {"regarding", std::move(regarding)},
      {"type", event.warning ? "Warning" : "Normal"},
      {"reason", Cut(event.reason, kMaxWord)},
      {"action", Cut(event.action.empty() ? event.reason : event.action, kMaxWord)},
      {"note", Cut(event.note, kMaxNote)},
      {"reportingController", event.controller},
      {"reportingInstance", Cut(event.instance, kMaxWord)}};
  const absl::StatusOr<Response> response = transport.Send(
      {.method = "POST",
       .target = fmt::format("/apis/events.k8s.io/v1/namespaces/{}/events", EscapeUrl(where)),
       .accept = kAccept,
       .content_type = "application/json",
       .body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)});
  if (!response.ok()) return response.status();
  // 409: an Event of this name, which is this one.
  if (response->status == 201 || response->status == 409) return absl::OkStatus();
  return StatusOf(*response);
}

}  // namespace numafit::kube
