#include "api/extender.h"

#include <limits>
#include <utility>

#include "api/json_reader.h"
#include "api/pod_json.h"

namespace numafit::api {
namespace {

using nlohmann::json;

std::string Dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Parses `text` and lets `read` fill a T from it.
template <typename T, typename Reader>
absl::StatusOr<T> Parse(std::string_view text, std::string_view what, Reader read) {
  const absl::StatusOr<json> value = ParseJson(text, what);
  if (!value.ok()) return value.status();
  absl::Status status;
  T result = read(JsonReader(*value, status), status);
  if (!status.ok()) return status;
  return result;
}

std::optional<std::vector<std::string>> ReadNames(const JsonReader& reader) {
  if (reader.IsNull()) return std::nullopt;
  std::vector<std::string> names;
  names.reserve(reader.Size());
  reader.ForEach([&](const JsonReader& name) { names.push_back(name.String()); });
  return names;
}

std::optional<std::vector<Node>> ReadNodes(const JsonReader& reader) {
  if (reader.IsNull()) return std::nullopt;
  std::vector<Node> nodes;
  reader["items"].ForEach([&](const JsonReader& item) {
    absl::StatusOr<Node> node = NodeFromJsonValue(item.Raw());
    if (node.ok()) {
      nodes.push_back(*std::move(node));
    } else {
      const absl::string_view message = node.status().message();
      item.Fail({message.data(), message.size()});
    }
  });
  return nodes;
}

StringMap ReadReasons(const JsonReader& reader) {
  StringMap reasons;
  reader.ForEachMember([&](const std::string& node, const JsonReader& reason) {
    reasons.insert_or_assign(node, reason.String());
  });
  return reasons;
}

// `uid` finds the uid of one victim.
template <typename Uid>
VictimsByNode ReadVictims(const JsonReader& reader, Uid uid) {
  VictimsByNode victims;
  reader.ForEachMember([&](const std::string& node, const JsonReader& entry) {
    PreemptionVictims& of_node = victims[node];
    entry["Pods"].ForEach([&](const JsonReader& pod) { of_node.uids.push_back(uid(pod)); });
    of_node.pdb_violations =
        entry["NumPDBViolations"].Int(0, std::numeric_limits<std::int64_t>::max());
  });
  return victims;
}

VictimsByNode ReadMetaVictims(const JsonReader& reader) {
  return ReadVictims(reader, [](const JsonReader& pod) { return pod["UID"].String(); });
}

json WriteNames(const std::optional<std::vector<std::string>>& names) {
  return names.has_value() ? json(*names) : json(nullptr);
}

// The objects' own JSON is text already; it is parsed again because this is no hot path.
json WriteNodes(const std::optional<std::vector<Node>>& nodes) {
  if (!nodes.has_value()) return nullptr;
  json items = json::array();
  for (const Node& node : *nodes) items.push_back(json::parse(NodeToJson(node)));
  return {{"metadata", json::object()}, {"items", std::move(items)}};
}

}  // namespace

absl::StatusOr<ExtenderArgs> ParseExtenderArgs(std::string_view text) {
  return Parse<ExtenderArgs>(text, "ExtenderArgs",
                             [](const JsonReader& reader, absl::Status& status) {
                               ExtenderArgs args;
                               absl::StatusOr<Pod> pod = PodFromJsonValue(reader["Pod"].Raw());
                               if (pod.ok()) {
                                 args.pod = *std::move(pod);
                               } else if (status.ok()) {
                                 const absl::string_view message = pod.status().message();
                                 reader["Pod"].Fail({message.data(), message.size()});
                               }
                               args.node_names = ReadNames(reader["NodeNames"]);
                               args.nodes = ReadNodes(reader["Nodes"]);
                               return args;
                             });
}

absl::StatusOr<ExtenderBindingArgs> ParseExtenderBindingArgs(std::string_view text) {
  return Parse<ExtenderBindingArgs>(
      text, "ExtenderBindingArgs", [](const JsonReader& reader, absl::Status& /*status*/) {
        return ExtenderBindingArgs{.pod_name = reader["PodName"].String(),
                                   .pod_namespace = reader["PodNamespace"].String(),
                                   .pod_uid = reader["PodUID"].String(),
                                   .node = reader["Node"].String()};
      });
}

absl::StatusOr<ExtenderPreemptionArgs> ParseExtenderPreemptionArgs(std::string_view text) {
  return Parse<ExtenderPreemptionArgs>(
      text, "ExtenderPreemptionArgs", [](const JsonReader& reader, absl::Status& status) {
        ExtenderPreemptionArgs args;
        args.has_pod = !reader["Pod"].IsNull();
        absl::StatusOr<Pod> pod = PodFromJsonValue(reader["Pod"].Raw());
        if (pod.ok()) {
          args.pod = *std::move(pod);
        } else if (status.ok()) {
          const absl::string_view message = pod.status().message();
          reader["Pod"].Fail({message.data(), message.size()});
        }
        const JsonReader uids = reader["NodeNameToMetaVictims"];
        args.victims = uids.IsNull() ? ReadVictims(reader["NodeNameToVictims"],
                                                   [](const JsonReader& victim) {
                                                     return victim["metadata"]["uid"].String();
                                                   })
                                     : ReadMetaVictims(uids);
        return args;
      });
}

absl::StatusOr<ExtenderPreemptionResult> ParseExtenderPreemptionResult(std::string_view text) {
  return Parse<ExtenderPreemptionResult>(
      text, "ExtenderPreemptionResult", [](const JsonReader& reader, absl::Status& /*status*/) {
        return ExtenderPreemptionResult{.victims =
                                            ReadMetaVictims(reader["NodeNameToMetaVictims"])};
      });
}

absl::StatusOr<ExtenderFilterResult> ParseExtenderFilterResult(std::string_view text) {
  return Parse<ExtenderFilterResult>(
      text, "ExtenderFilterResult", [](const JsonReader& reader, absl::Status& /*status*/) {
        return ExtenderFilterResult{
            .node_names = ReadNames(reader["NodeNames"]),
            .nodes = ReadNodes(reader["Nodes"]),
            .failed_nodes = ReadReasons(reader["FailedNodes"]),
            .failed_and_unresolvable_nodes = ReadReasons(reader["FailedAndUnresolvableNodes"]),
            .error = reader["Error"].String()};
      });
}

absl::StatusOr<HostPriorityList> ParseHostPriorityList(std::string_view text) {
  return Parse<HostPriorityList>(
      text, "HostPriorityList", [](const JsonReader& reader, absl::Status& /*status*/) {
        HostPriorityList list;
        reader.ForEach([&](const JsonReader& entry) {
          list.push_back({.host = entry["Host"].String(),
                          .score = entry["Score"].Int(std::numeric_limits<std::int64_t>::min(),
                                                      std::numeric_limits<std::int64_t>::max())});
        });
        return list;
      });
}

absl::StatusOr<ExtenderBindingResult> ParseExtenderBindingResult(std::string_view text) {
  return Parse<ExtenderBindingResult>(
      text, "ExtenderBindingResult", [](const JsonReader& reader, absl::Status& /*status*/) {
        return ExtenderBindingResult{.error = reader["Error"].String()};
      });
}

std::string ToJson(const ExtenderArgs& args) {
  return Dump({{"Pod", json::parse(PodToJson(args.pod))},
               {"Nodes", WriteNodes(args.nodes)},
               {"NodeNames", WriteNames(args.node_names)}});
}

std::string ToJson(const ExtenderBindingArgs& args) {
  return Dump({{"PodName", args.pod_name},
               {"PodNamespace", args.pod_namespace},
               {"PodUID", args.pod_uid},
               {"Node", args.node}});
}

std::string ToJson(const ExtenderPreemptionResult& result) {
  json nodes = json::object();
  for (const auto& [node, victims] : result.victims) {
    json pods = json::array();
    for (const std::string& uid : victims.uids) pods.push_back({{"UID", uid}});
    nodes[node] = {{"Pods", std::move(pods)}, {"NumPDBViolations", victims.pdb_violations}};
  }
  return Dump({{"NodeNameToMetaVictims", std::move(nodes)}});
}

std::string ToJson(const ExtenderFilterResult& result) {
  return Dump({{"Nodes", WriteNodes(result.nodes)},
               {"NodeNames", WriteNames(result.node_names)},
               {"FailedNodes", result.failed_nodes},
               {"FailedAndUnresolvableNodes", result.failed_and_unresolvable_nodes},
               {"Error", result.error}});
}

std::string ToJson(const HostPriorityList& list) {
  json array = json::array();
  for (const HostPriority& entry : list) {
    array.push_back({{"Host", entry.host}, {"Score", entry.score}});
  }
  return Dump(array);
}

std::string ToJson(const ExtenderBindingResult& result) {
  return Dump({{"Error", result.error}});
}

}  // namespace numafit::api
