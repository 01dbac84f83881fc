#include "policy/topology_manager/scope.h"

#include <algorithm>
#include <map>

#include "policy/mutation.h"

namespace numafit::policy {

DeviceRequests ContainerRequests(const Topology& topology, const ContainerDemand& container) {
  DeviceRequests requests;
  for (const auto& [resource, count] : container.devices) {
    const int pool = topology.FindPool(resource);
    if (pool < 0) continue;
    if (count == 0 && Mutated(Mutation::kZeroIsNothing)) continue;
    requests.push_back({.pool = pool, .count = count});
  }
  return requests;
}

DeviceRequests PodRequests(const Demand& demand,
                           const absl::InlinedVector<DeviceRequests, 4>& containers) {
  std::map<int, std::int64_t> running;   // app containers and sidecars
  std::map<int, std::int64_t> sidecars;  // so far
  std::map<int, std::int64_t> starting;  // the most that an init container needs
  for (std::size_t i = 0; i < containers.size(); ++i) {
    const ContainerDemand::Kind kind = demand.containers[i].kind;
    for (const DeviceRequest& request : containers[i]) {
      if (kind == ContainerDemand::Kind::kInit) {
        std::int64_t& most = starting[request.pool];
        const auto before = sidecars.find(request.pool);
        most = std::max(most, request.count + (before == sidecars.end() ? 0 : before->second));
        continue;
      }
      running[request.pool] += request.count;
      if (kind == ContainerDemand::Kind::kSidecar) sidecars[request.pool] += request.count;
    }
  }
  for (const auto& [pool, count] : starting) {
    std::int64_t& total = running[pool];
    total = std::max(total, count);
  }
  DeviceRequests requests;
  for (const auto& [pool, count] : running) requests.push_back({.pool = pool, .count = count});
  return requests;
}

}  // namespace numafit::policy
