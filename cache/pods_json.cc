#include "cache/pods_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "cache/pod_holdings.h"

namespace numafit::cache {
namespace {

using nlohmann::json;

json ContainerJson(const ContainerHoldings& container) {
  json devices = json::array();
  for (const api::HeldPlace& place : container.places.devices) {
    devices.push_back({{"resource", place.resource},
                       {"kind", place.is_accelerator ? "accelerator" : "endpoint"},
                       {"numa", place.numa_nodes},
                       {"published", place.published},
                       {"count", place.count}});
  }
  return {{"name", container.places.name},
          {"init", container.places.init},
          {"alignment", api::HeldAlignmentName(container.alignment)},
          {"devices", std::move(devices)}};
}

json PodJson(const NodeView& node, const PodOnNode& pod, const PodHoldings& holdings) {
  json containers = json::array();
  for (const ContainerHoldings& container : holdings.containers) {
    containers.push_back(ContainerJson(container));
  }
  return {{"pod", pod.name},
          {"node", node.name},
          {"state", PodStateName(pod.state)},
          {"alignment", api::HeldAlignmentName(holdings.alignment())},
          {"possible", holdings.possible},
          {"containers", std::move(containers)}};
}

}  // namespace

absl::StatusOr<std::string> PodsToJson(const std::vector<NodeView>& fleet,
                                       const PodsOptions& options) {
  struct Row {
    bool is_misaligned = false;
    const NodeView* node = nullptr;
    const PodOnNode* pod = nullptr;
    PodHoldings holdings;
  };
  std::vector<Row> rows;
  bool found = options.node.empty();
  for (const NodeView& node : fleet) {
    if (!options.node.empty() && node.name != options.node) continue;
    found = true;
    for (const PodOnNode& pod : node.pods) {
      PodHoldings holdings = HoldingsOf(node, pod);
      if (holdings.containers.empty()) continue;
      const bool is_misaligned = holdings.alignment() == api::HeldAlignment::kMisaligned;
      if (options.misaligned_only && !is_misaligned) continue;
      rows.push_back({is_misaligned, &node, &pod, std::move(holdings)});
    }
  }
  if (!found) {
    return absl::NotFoundError(fmt::format("node {} is not in the fleet", options.node));
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::tie(b.is_misaligned, a.node->name, a.pod->name, a.pod->uid) <
           std::tie(a.is_misaligned, b.node->name, b.pod->name, b.pod->uid);
  });
  json pods = json::array();
  for (const Row& row : rows) pods.push_back(PodJson(*row.node, *row.pod, row.holdings));
  return json{{"pods", std::move(pods)}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace numafit::cache
