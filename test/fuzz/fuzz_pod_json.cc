// Pods and Nodes in JSON: any bytes are read or refused, and what was read survives a round trip.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/pod_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace numafit::api;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto pod = PodFromJson(text); pod.ok()) {
    const std::string written = PodToJson(*pod);
    const auto again = PodFromJson(written);
    if (!again.ok() || PodToJson(*again) != written) std::abort();
  }
  if (const auto node = NodeFromJson(text); node.ok()) {
    const std::string written = NodeToJson(*node);
    const auto again = NodeFromJson(written);
    if (!again.ok() || NodeToJson(*again) != written) std::abort();
  }
  return 0;
}
