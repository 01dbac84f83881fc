// The metadata of any object, whatever its kind: of owners, which are named by kind and may be
// anybody's custom resources.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "api/objects.h"
#include "kube/client.h"

namespace numafit::kube {

class Cancel;

// An object as an ownerReference names it.
struct ObjectName {
  std::string api_version;  // "batch/v1"; of the core group "v1"
  std::string kind;
  std::string namespace_;  // not looked at where the kind is cluster-scoped
  std::string name;
};

// Asks the API server for PartialObjectMetadata, so that nothing else of the object travels. Under
// which path a kind is served is asked once per group and version, and again when a kind is not
// there. Not thread-safe.
class MetadataReader {
 public:
  // Both outlive it. `cancel` may be null; once it is set Read returns Cancelled at once.
  explicit MetadataReader(Client& client, const Cancel* cancel = nullptr)
      : client_(client), cancel_(cancel) {}

  // NotFound: no such object, or no such kind. PermissionDenied: no right to `get` it.
  // InvalidArgument: no such name can be. Unimplemented: a client without a transport. Up to two
  // requests, which block.
  absl::StatusOr<api::ObjectMeta> Read(const ObjectName& object);

 private:
  struct Resource {
    std::string plural;
    bool is_namespaced = false;
  };
  using Kinds = std::map<std::string, Resource>;

  absl::StatusOr<Resource> FindResource(const std::string& api_version, const std::string& kind);
  absl::StatusOr<Kinds> Discover(const std::string& path);

  absl::StatusOr<nlohmann::json> Get(std::string target, const char* accept, std::string_view what);

  Client& client_;
  const Cancel* const cancel_;
  std::map<std::string, Kinds> served_;  // by apiVersion
};

}  // namespace numafit::kube
