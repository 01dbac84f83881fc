#include "agent/device_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/resource_class.h"

namespace numafit::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

const DeviceTopology kNuma0{true, {0}};
const DeviceTopology kNuma1{true, {1}};
const DeviceTopology kNone{false, {}};

DeviceTopologies Gpus(int count) {
  DeviceTopologies devices;
  for (int i = 0; i < count; ++i) devices["gpu"]["g" + std::to_string(i)] = i < 2 ? kNuma0 : kNuma1;
  return devices;
}

std::vector<std::string> Ids(const DeviceTable& table, bool healthy) {
  std::vector<std::string> ids;
  const auto devices = table.find("gpu");
  if (devices == table.end()) return ids;
  for (const auto& [id, device] : devices->second) {
    if (device.healthy == healthy) ids.push_back(id);
  }
  return ids;
}

TEST(DeviceMemory, RemembersWhereAnUnhealthyDeviceIs) {
  DeviceMemory memory;
  const DeviceTopologies all = Gpus(4);
  memory.Observe({&all, nullptr, nullptr, false});
  DeviceTopologies fewer = all;
  fewer["gpu"].erase("g3");
  memory.Observe({&fewer, nullptr, nullptr, false});
  EXPECT_THAT(Ids(memory.table(), true), ElementsAre("g0", "g1", "g2"));
  EXPECT_THAT(Ids(memory.table(), false), ElementsAre("g3"));
  EXPECT_EQ(memory.table().at("gpu").at("g3").topology, kNuma1);
  memory.Observe({&all, nullptr, nullptr, false});
  EXPECT_THAT(Ids(memory.table(), false), IsEmpty());
}

TEST(DeviceMemory, HeldDeviceThatVanishedIsUnhealthyWithTheNumaNodeOfItsHolder) {
  DeviceMemory memory;
  DeviceTopologies seen = Gpus(2);
  DeviceCheckpoint checkpoint;
  checkpoint.entries = {{"uid", "main", "gpu", {{"g7", {1}}}}};
  checkpoint.registered["gpu"] = {"g0", "g1"};
  memory.Observe({&seen, nullptr, &checkpoint, true});
  EXPECT_THAT(Ids(memory.table(), false), ElementsAre("g7"));
  EXPECT_EQ(memory.table().at("gpu").at("g7").topology, kNuma1);
  // Held ones do not fall under the bound.
  memory.Observe({&seen, nullptr, &checkpoint, true});
  EXPECT_THAT(Ids(memory.table(), false), ElementsAre("g7"));
}

TEST(DeviceMemory, RegisteredButNeverAllocatableIsOnNoNumaNode) {
  DeviceMemory memory;
  const DeviceTopologies seen = Gpus(2);
  DeviceCheckpoint checkpoint;
  checkpoint.registered["gpu"] = {"g0", "g1", "g9"};
  checkpoint.registered["other"] = {"o0"};
  memory.Observe({&seen, nullptr, &checkpoint, true});
  EXPECT_THAT(Ids(memory.table(), true), ElementsAre("g0", "g1", "g9"));
  EXPECT_EQ(memory.table().at("gpu").at("g9").topology, (DeviceTopology{true, {}}));
  EXPECT_TRUE(memory.table().at("other").at("o0").healthy);
}

TEST(DeviceMemory, CheckpointOfTheFormerKubeletMakesNothingHealthy) {
  DeviceMemory memory;
  const DeviceTopologies all = Gpus(4);
  DeviceCheckpoint checkpoint;
  checkpoint.registered["gpu"] = {"g0", "g1", "g2", "g3"};
  memory.Observe({&all, nullptr, &checkpoint, true});
  // The kubelet has restarted; its plugins have not come back yet.
  const DeviceTopologies nothing;
  memory.Observe({&nothing, nullptr, &checkpoint, false});
  EXPECT_THAT(Ids(memory.table(), true), IsEmpty());
  EXPECT_THAT(Ids(memory.table(), false), ElementsAre("g0", "g1", "g2", "g3"));
  memory.Observe({&all, nullptr, &checkpoint, true});
  EXPECT_THAT(Ids(memory.table(), true), ElementsAre("g0", "g1", "g2", "g3"));
}

TEST(DeviceMemory, AgentThatStartsBesideARestartingKubeletSeesNoDevicesYet) {
  DeviceMemory memory;
  const DeviceTopologies nothing;
  DeviceCheckpoint checkpoint;
  checkpoint.registered["gpu"] = {"g0", "g1"};
  memory.Observe({&nothing, nullptr, &checkpoint, false});
  ASSERT_EQ(memory.table().count("gpu"), 1U);
  EXPECT_THAT(memory.table().at("gpu"), IsEmpty());
}

TEST(DeviceMemory, PluginWithNewIdsLeavesNoGhosts) {
  DeviceMemory memory;
  DeviceCheckpoint checkpoint;
  checkpoint.registered["gpu"] = {};
  for (int round = 0; round < 50; ++round) {
    DeviceTopologies seen;
    for (int i = 0; i < 4; ++i) {
      seen["gpu"]["r" + std::to_string(round) + "-" + std::to_string(i)] = kNuma0;
    }
    memory.Observe({&seen, nullptr, &checkpoint, true});
    EXPECT_EQ(memory.table().at("gpu").size(), 4U);
  }
}

TEST(DeviceMemory, ReplacedDevicesWithOneLessKeepTheOneThatWentLast) {
  DeviceMemory memory;
  const DeviceTopologies all = Gpus(4);
  memory.Observe({&all, nullptr, nullptr, false});
  DeviceTopologies seen = all;
  seen["gpu"].erase("g0");
  memory.Observe({&seen, nullptr, nullptr, false});
  seen["gpu"].erase("g1");
  seen["gpu"]["new"] = kNuma0;
  memory.Observe({&seen, nullptr, nullptr, false});
  EXPECT_THAT(Ids(memory.table(), false), ElementsAre("g1"));
}

TEST(DeviceMemory, ResourceThatTheKubeletDroppedIsForgotten) {
  DeviceMemory memory;
  const DeviceTopologies all = Gpus(4);
  DeviceCheckpoint checkpoint;
  checkpoint.registered["gpu"] = {"g0"};
  memory.Observe({&all, nullptr, &checkpoint, true});
  const DeviceTopologies nothing;
  checkpoint.registered["gpu"] = {};
  memory.Observe({&nothing, nullptr, &checkpoint, true});
  EXPECT_EQ(Ids(memory.table(), false).size(), 4U) << "its plugin is away: capacity stays";
  checkpoint.registered.clear();
  memory.Observe({&nothing, nullptr, &checkpoint, true});
  EXPECT_THAT(memory.table(), IsEmpty());
}

TEST(DeviceMemory, NothingChangesWhileTheSocketIsAway) {
  DeviceMemory memory;
  const DeviceTopologies all = Gpus(4);
  DeviceCheckpoint checkpoint;
  checkpoint.registered["gpu"] = {"g0", "g1", "g2", "g3"};
  checkpoint.entries = {{"uid", "main", "gpu", {{"g1", {0}}}}};
  memory.Observe({&all, nullptr, &checkpoint, true});
  const DeviceTable before = memory.table();
  memory.Observe({nullptr, nullptr, &checkpoint, false});
  EXPECT_EQ(memory.table(), before);
  memory.Observe({nullptr, nullptr, nullptr, false});
  EXPECT_EQ(memory.table(), before);
}

// What an agent that knew these devices has reported: a row for each.
v1alpha1::NodeReportStatus ReportOf(const DeviceTable& table) {
  v1alpha1::NodeReportStatus report;
  for (const auto& [resource, devices] : table) {
    v1alpha1::Resource* out = report.add_resources();
    out->set_name(resource);
    for (const auto& [id, device] : devices) {
      v1alpha1::DeviceGroup* group = out->add_groups();
      group->set_endpoint(std::string(api::EndpointKey(id)));
      for (const int node : device.topology.numa_nodes) group->add_numa_nodes(node);
      group->set_no_topology(!device.topology.published);
      group->set_unhealthy(!device.healthy);
      group->set_count(1);
    }
  }
  return report;
}

std::string EndpointOf(const std::string&, const std::string& id) {
  return std::string(api::EndpointKey(id));
}

// NUMA nodes of the unhealthy devices.
std::vector<int> LostNodes(const DeviceTable& table) {
  std::vector<int> nodes;
  for (const auto& [id, device] : table.at("gpu")) {
    if (!device.healthy) nodes.push_back(device.topology.numa_nodes.at(0));
  }
  return nodes;
}

TEST(RestartedDeviceMemory, KnowsWhatWasUnhealthyAndWhatHasGoneSince) {
  DeviceMemory former;
  const DeviceTopologies all = Gpus(4);  // two on each NUMA node
  former.Observe({&all, nullptr, nullptr, false});
  DeviceTopologies fewer = all;
  fewer["gpu"].erase("g3");
  former.Observe({&fewer, nullptr, nullptr, false});
  fewer["gpu"].erase("g0");  // while no agent ran
  DeviceMemory memory;
  memory.Observe({&fewer, nullptr, nullptr, false});
  EXPECT_THAT(LostNodes(memory.table()), IsEmpty());
  memory.Restore(ReportOf(former.table()), EndpointOf);
  memory.Observe({&fewer, nullptr, nullptr, false});
  EXPECT_THAT(Ids(memory.table(), true), ElementsAre("g1", "g2"));
  EXPECT_THAT(LostNodes(memory.table()), UnorderedElementsAre(0, 1));
  // As long as they stay away.
  memory.Observe({&fewer, nullptr, nullptr, false});
  EXPECT_THAT(LostNodes(memory.table()), UnorderedElementsAre(0, 1));
  // Each comes back as itself, in whatever order.
  fewer["gpu"]["g0"] = kNuma0;
  memory.Observe({&fewer, nullptr, nullptr, false});
  EXPECT_THAT(LostNodes(memory.table()), ElementsAre(1));
  memory.Observe({&all, nullptr, nullptr, false});
  EXPECT_THAT(LostNodes(memory.table()), IsEmpty());
  EXPECT_EQ(memory.table().at("gpu").size(), 4U);
}

TEST(RestartedDeviceMemory, TokensOfOneAdapterAreCounted) {
  v1alpha1::NodeReportStatus last;
  v1alpha1::Resource* resource = last.add_resources();
  resource->set_name("gpu");
  for (const bool unhealthy : {false, true}) {
    v1alpha1::DeviceGroup* group = resource->add_groups();
    group->set_endpoint("ib0:ib0");
    group->add_numa_nodes(1);
    group->set_unhealthy(unhealthy);
    group->set_count(unhealthy ? 24 : 40);
  }
  DeviceTopologies seen;
  const auto show = [&seen](int tokens) {
    for (int t = 0; t < tokens; ++t) seen["gpu"]["ib0:ib0:10" + std::to_string(10 + t)] = kNuma1;
  };
  show(40);
  DeviceMemory memory;
  memory.Restore(last, EndpointOf);
  memory.Observe({&seen, nullptr, nullptr, false});
  EXPECT_EQ(LostNodes(memory.table()).size(), 24U);
  show(50);
  memory.Observe({&seen, nullptr, nullptr, false});
  EXPECT_EQ(LostNodes(memory.table()).size(), 14U);
  EXPECT_EQ(memory.table().at("gpu").size(), 64U);
}

TEST(RestartedDeviceMemory, DevicesWithNewNamesLeaveNoGhosts) {
  DeviceMemory former;
  const DeviceTopologies all = Gpus(4);
  former.Observe({&all, nullptr, nullptr, false});
  DeviceTopologies renamed;
  for (const char* id : {"n0", "n1", "n2"}) renamed["gpu"][id] = kNuma0;
  DeviceMemory memory;
  memory.Restore(ReportOf(former.table()), EndpointOf);
  memory.Observe({&renamed, nullptr, nullptr, false});
  EXPECT_EQ(memory.table().at("gpu").size(), 4U) << "no more than there were";
}

TEST(RestartedDeviceMemory, ResourceThatTheKubeletDroppedMeanwhile) {
  DeviceMemory former;
  const DeviceTopologies all = Gpus(4);
  former.Observe({&all, nullptr, nullptr, false});
  const DeviceTopologies nothing;
  DeviceCheckpoint checkpoint;
  DeviceMemory memory;
  memory.Restore(ReportOf(former.table()), EndpointOf);
  memory.Observe({nullptr, nullptr, nullptr, false});
  EXPECT_THAT(memory.table(), IsEmpty()) << "the kubelet has not been asked yet";
  memory.Observe({&nothing, nullptr, &checkpoint, true});
  EXPECT_THAT(memory.table(), IsEmpty());
}

TEST(RestartedDeviceMemory, BesideARestartingKubeletAllCountAsUnhealthyUntilTheyAreBack) {
  DeviceMemory former;
  const DeviceTopologies all = Gpus(4);
  former.Observe({&all, nullptr, nullptr, false});
  const DeviceTopologies nothing;
  DeviceCheckpoint checkpoint;
  checkpoint.registered["gpu"] = {"g0", "g1", "g2", "g3"};
  DeviceMemory memory;
  memory.Restore(ReportOf(former.table()), EndpointOf);
  memory.Observe({&nothing, nullptr, &checkpoint, false});
  EXPECT_THAT(LostNodes(memory.table()), UnorderedElementsAre(0, 0, 1, 1));
  memory.Observe({&all, nullptr, &checkpoint, true});
  EXPECT_THAT(LostNodes(memory.table()), IsEmpty());
  EXPECT_THAT(Ids(memory.table(), true), ElementsAre("g0", "g1", "g2", "g3"));
}

TEST(DeviceMemory, DeviceWithoutTopologyStaysOneWithoutWhenItIsHeldAndUnhealthy) {
  DeviceMemory memory;
  DeviceTopologies seen;
  seen["gpu"]["a"] = kNone;
  DeviceCheckpoint checkpoint;
  checkpoint.registered["gpu"] = {"a"};
  checkpoint.entries = {{"uid", "main", "gpu", {{"a", {}}}}};
  memory.Observe({&seen, nullptr, &checkpoint, true});
  seen["gpu"].clear();
  checkpoint.registered["gpu"].clear();
  memory.Observe({&seen, nullptr, &checkpoint, true});
  EXPECT_EQ(memory.table().at("gpu").at("a"), (Device{kNone, false}));
}

}  // namespace
}  // namespace numafit::agent
