// Advice on quotas as JSON.
#include <nlohmann/json.hpp>
#include <utility>

#include "workloads/quota.h"

namespace numafit::workloads {

using nlohmann::json;

std::string ToJson(std::string_view state, const std::string& why,
                   const std::vector<QuotaAdvice>& advice) {
  json quotas = json::array();
  for (const QuotaAdvice& each : advice) {
    json shapes = json::array();
    for (const QuotaAdvice::Shape& shape : each.shapes) {
      shapes.push_back({{"perPod", shape.per_pod},
                        {"pods", shape.pods},
                        {"placeable", shape.placeable},
                        {"workload", shape.workload}});
    }
    quotas.push_back({{"clusterQueue", each.cluster_queue},
                      {"flavor", each.flavor},
                      {"resource", each.resource},
                      {"quota", each.quota},
                      {"nodes", each.nodes},
                      {"devices", each.devices},
                      {"placeable", each.placeable},
                      {"shapes", std::move(shapes)}});
  }
  json answer = {{"state", state}, {"quotas", std::move(quotas)}};
  if (!why.empty()) answer["why"] = why;
  return answer.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace numafit::workloads
