// Kubeconfig files and server addresses.
#include <cstdint>
#include <string>

#include "kube/http/transport.h"
#include "kube/kubeconfig.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace numafit::kube;
  const std::string text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(ParseServerUrl(text));
  const auto credentials = ParseKubeconfig(
      text, "config", [](const std::string& path) -> absl::StatusOr<std::string> { return path; });
  if (credentials.ok()) static_cast<void>(Transport::Create(*credentials, {}));
  return 0;
}
