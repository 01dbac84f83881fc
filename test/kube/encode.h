// Values as the API server's protobuf: the opposite of kube/decode.h, for fakes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/objects.h"

namespace numafit::kube_testing {

std::string EncodePod(const api::Pod& pod);
std::string EncodeNode(const api::Node& node);
// "k8s\0" and runtime.Unknown around an object's bytes.
std::string Envelope(std::string_view kind, std::string_view raw);
std::string EncodeStatus(int code, std::string_view reason, std::string_view message);
// A list of already encoded objects.
std::string EncodeList(std::string_view kind, const std::vector<std::string>& items,
                       std::string_view resource_version, std::string_view continue_token);
// A framed watch event around an enveloped object.
std::string EncodeEvent(std::string_view type, std::string_view enveloped);

}  // namespace numafit::kube_testing
