#include "api/held_places.h"

#include <gtest/gtest.h>

#include "api/node_report.pb.h"

namespace numafit::api {
namespace {

HeldPlace Accelerators(std::vector<int> numa_nodes, int count = 1) {
  return {.resource = "nvidia.com/gpu",
          .is_accelerator = true,
          .numa_nodes = std::move(numa_nodes),
          .published = true,
          .count = count};
}
HeldPlace Endpoints(std::vector<int> numa_nodes, int count = 1) {
  return {.resource = "device.gpustack.ai/rdma",
          .is_accelerator = false,
          .numa_nodes = std::move(numa_nodes),
          .published = true,
          .count = count};
}

TEST(HeldPlaces, AContainerIsMisalignedWhenNoNumaNodeHasBothSides) {
  const auto of = [](std::vector<HeldPlace> devices) {
    return HeldAlignmentName(AlignmentOf(devices));
  };
  EXPECT_EQ(of({}), "not-needed");
  EXPECT_EQ(of({Accelerators({0}), Accelerators({1})}), "not-needed");
  EXPECT_EQ(of({Endpoints({0})}), "not-needed");
  EXPECT_EQ(of({Accelerators({0}), Endpoints({0})}), "aligned");
  EXPECT_EQ(of({Accelerators({0}), Endpoints({1})}), "misaligned");
  EXPECT_EQ(of({Accelerators({0}), Accelerators({1}), Endpoints({1})}), "aligned");
  EXPECT_EQ(of({Accelerators({0, 1}), Endpoints({1})}), "aligned");
  EXPECT_EQ(of({Accelerators({63}), Endpoints({62})}), "misaligned");
  EXPECT_EQ(of({Accelerators({0}), Endpoints({})}), "unknown");
  EXPECT_EQ(of({Accelerators({}), Endpoints({})}), "unknown");
  // What is known of the rest counts.
  EXPECT_EQ(of({Accelerators({0}), Endpoints({}), Endpoints({1})}), "misaligned");
}

class OfAReport : public ::testing::Test {
 protected:
  OfAReport() {
    v1alpha1::Resource* gpu = Resource("nvidia.com/gpu");
    Group(gpu, {0});
    Group(gpu, {0});
    Group(gpu, {1});
    v1alpha1::Resource* pool = Resource("rdma/hca_shared");
    v1alpha1::DeviceGroup* group = pool->add_groups();
    group->set_no_topology(true);
    group->add_actual_numa_nodes(1);
    Group(Resource("example.com/other"), {1});
  }
  v1alpha1::Resource* Resource(const std::string& name) {
    v1alpha1::Resource* resource = report_.add_resources();
    resource->set_name(name);
    return resource;
  }
  static void Group(v1alpha1::Resource* resource, const std::vector<int>& numa_nodes) {
    v1alpha1::DeviceGroup* group = resource->add_groups();
    for (const int numa : numa_nodes) group->add_numa_nodes(numa);
  }
  static void Hold(const std::string& resource, int group, int count, v1alpha1::Container* out) {
    v1alpha1::HeldDevices* held = out->add_devices();
    held->set_resource(resource);
    held->set_group(group);
    held->set_count(count);
  }

  v1alpha1::NodeReportStatus report_;
  v1alpha1::Pod pod_;
};

TEST_F(OfAReport, GroupsOfOnePlaceAreOneAndTheHardwaresPlaceStandsIn) {
  v1alpha1::Container* main = pod_.add_containers();
  main->set_name("main");
  Hold("nvidia.com/gpu", 0, 1, main);
  Hold("nvidia.com/gpu", 1, 2, main);
  Hold("rdma/hca_shared", 0, 1, main);
  Hold("example.com/other", 0, 1, main);
  pod_.add_containers()->set_name("without");
  const std::vector<ContainerPlaces> places = PlacesOf(report_, pod_, ResourceClasses());
  ASSERT_EQ(places.size(), 1U);
  EXPECT_EQ(places[0].name, "main");
  ASSERT_EQ(places[0].devices.size(), 2U);
  EXPECT_EQ(places[0].devices[0], Accelerators({0}, 3));
  EXPECT_EQ(places[0].devices[1].numa_nodes, std::vector<int>{1});
  EXPECT_FALSE(places[0].devices[1].published);
  EXPECT_EQ(MisalignedText(places),
            "container main: nvidia.com/gpu on NUMA 0, rdma/hca_shared on NUMA 1");
  EXPECT_EQ(MisalignedText({{"main", false, {Accelerators({0}), Endpoints({0})}}}), "");
}

TEST_F(OfAReport, WhatTheReportDoesNotHaveIsLeftOut) {
  v1alpha1::Container* main = pod_.add_containers();
  Hold("nvidia.com/gpu", 3, 1, main);
  Hold("nvidia.com/gpu", -1, 1, main);
  Hold("amd.com/gpu", 0, 1, main);
  EXPECT_TRUE(PlacesOf(report_, pod_, ResourceClasses()).empty());
  Group(report_.mutable_resources(0), {-1, 64, 5});
  Hold("nvidia.com/gpu", 3, 1, main);
  EXPECT_EQ(PlacesOf(report_, *main, ResourceClasses()).devices.at(0), Accelerators({5}, 2));
}

}  // namespace
}  // namespace numafit::api
