#include "policy/topology_manager/scope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/policy/machines.h"

namespace numafit::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::kGpu;
using testing::kNic;
using testing::Machine;
using testing::PodOf;

DeviceRequests PodTotals(const Topology& topology, const Demand& demand) {
  absl::InlinedVector<DeviceRequests, 4> containers;
  for (const ContainerDemand& c : demand.containers) {
    containers.push_back(ContainerRequests(topology, c));
  }
  return PodRequests(demand, containers);
}

TEST(Scope, UnregisteredResourcesAreNoRequest) {
  const auto topology = Machine(2).Pool(kGpu, {1, 1}).Build();
  const Demand pod = PodOf().App({{"cpu", 4}, {"example.com/none", 1}});
  EXPECT_THAT(ContainerRequests(*topology, pod.containers[0]), IsEmpty());
}

TEST(Scope, AZeroLimitIsARequest) {
  const auto topology = Machine(2).Pool(kGpu, {1, 1}).Build();
  const PodOf pod = PodOf().App({{kGpu, 0}});
  EXPECT_THAT(PodTotals(*topology, pod), ElementsAre(DeviceRequest{0, 0}));
}

TEST(Scope, InitContainersCountAloneWithTheSidecarsBeforeThem) {
  const auto topology = Machine(2).Pool(kGpu, {8, 8}).Pool(kNic, {8, 8}).Build();
  const PodOf pod = PodOf()
                        .Init({{kGpu, 5}})
                        .Sidecar({{kGpu, 1}, {kNic, 1}})
                        .Init({{kGpu, 6}, {kNic, 1}})
                        .App({{kGpu, 2}, {kNic, 3}})
                        .App({{kGpu, 1}});
  // GPUs: max(1 + 2 + 1, 5, 6 + 1); NICs: max(1 + 3, 1 + 1).
  EXPECT_THAT(PodTotals(*topology, pod), ElementsAre(DeviceRequest{0, 7}, DeviceRequest{1, 4}));
}

}  // namespace
}  // namespace numafit::policy
