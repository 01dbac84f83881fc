// A Pod of an extender request, read from the document that simdjson has parsed already.
//
// Reads what a Demand and the decision log need: metadata (name, namespace, uid, annotations of
// numafit.io), resources of all containers and of the Pod, resource claims, scheduler name, QoS.
#pragma once

#include "absl/status/status.h"
#include "api/objects.h"

namespace simdjson::dom {
class element;
}  // namespace simdjson::dom

namespace numafit::extender {

// Replaces `pod`. null and absent fields are empty. InvalidArgument names the path of a field of
// the wrong type ("Pod.spec.containers[0].resources.limits.nvidia.com/gpu: …").
absl::Status ReadPod(const simdjson::dom::element& value, api::Pod* pod);

}  // namespace numafit::extender
