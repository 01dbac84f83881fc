// Single requests of the client, apart from its class; kube/client.h has their contracts.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/node_report.h"
#include "kube/client.h"
#include "kube/decode.h"
#include "kube/http/transport.h"

namespace numafit::kube {

// JSON only where the server knows no protobuf.
inline constexpr char kAccept[] = "application/vnd.kubernetes.protobuf, application/json;q=0.5";
// Custom resources have no protobuf.
inline constexpr char kAcceptJson[] = "application/json";
inline constexpr char kNodeResourceTopologiesPath[] =
    "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies";
inline constexpr char kNodeReportsPath[] = "/apis/numafit.io/v1alpha1/nodereports";

// Where Kueue's objects are: those of all namespaces, or the cluster-scoped ones.
inline std::string KueuePath(const std::string& version, const std::string& resource) {
  return "/apis/kueue.x-k8s.io/" + version + "/" + resource;
}

// The absl status of an answer that is no success.
inline absl::Status StatusOf(const Response& response) {
  return ToAbslStatus(response.status,
                      DecodeStatus(response.body, EncodingOf(response.content_type)));
}

absl::Status PostEvent(Transport& transport, const EventRequest& event);
absl::StatusOr<api::NodeReport> GetNodeReport(Transport& transport, const std::string& name);
absl::Status ApplyNodeReport(Transport& transport, const api::NodeReport& report);

}  // namespace numafit::kube
